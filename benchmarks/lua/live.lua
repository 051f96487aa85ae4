-- The floor: the cheapest answer that the same HTTP server gives.

require("common")

local live

function init()
  live = wrk.format("GET", "/health/live")
end

function request()
  return live
end

function response(status)
  if status ~= 200 then
    failed = failed + 1
  end
end
