-- Leased pop of up to `batch` messages, then one ack/batch of exactly these; half of the requests are acks.
-- A thread sends the acks that its pops have earned before it pops again, so no lease waits for long.

local common = require("common")

local pop, acks = nil, {}

function init(args)
  local options = common.options(args)
  local query = string.format("?batch=%d&wait=false", options.batch)
  pop = wrk.format("GET", "/api/v1/pop/queue/" .. options.queue .. query)
end

function request()
  return table.remove(acks) or pop
end

local function ack_of(body)
  local partition_id = body:match('"partitionId":"([^"]+)"')
  local lease_id = body:match('"leaseId":"([^"]+)"')
  local place = string.format(
    '","partitionId":"%s","leaseId":"%s","status":"completed"}', partition_id, lease_id
  )
  local items = {}
  for transaction_id in body:gmatch('"transactionId":"([^"]+)"') do
    items[#items + 1] = '{"transactionId":"' .. transaction_id .. place
  end
  local text = '{"acknowledgments":[' .. table.concat(items, ",") .. "]}"
  return wrk.format("POST", "/api/v1/ack/batch", nil, text)
end

function response(status, _, body)
  if status == 204 then
    dry = dry + 1
  elseif status ~= 200 or string.find(body, 'success":false', 1, true) then
    failed = failed + 1
  elseif body:byte(1) == 91 then -- an array: the answer to an ack
    messages = messages + common.count(body, 'success":true')
  else
    acks[#acks + 1] = ack_of(body)
  end
end
