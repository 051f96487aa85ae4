-- autoAck pop of up to `batch` messages; from any partition, or with specific=1 from each by name in turn.

local common = require("common")

local next_request, mark

function init(args)
  local options = common.options(args)
  local query = string.format("?batch=%d&autoAck=true&wait=false", options.batch)
  local path = "/api/v1/pop/queue/" .. options.queue
  local requests = {}
  if options.specific == 1 then
    for partition = 0, options.partitions - 1 do
      requests[#requests + 1] = wrk.format("GET", path .. "/partition/p" .. partition .. query)
    end
  else
    requests[1] = wrk.format("GET", path .. query)
  end
  next_request = common.in_turn(requests)
  mark = options.mark
end

function request()
  return next_request()
end

function response(status, _, body)
  if status == 200 then
    messages = messages + common.count(body, mark)
  elseif status == 204 then
    dry = dry + 1
  else
    failed = failed + 1
  end
end
