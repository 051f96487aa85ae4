-- Ack of one message that is not leased: all of the way there and back, and one row of the call.

local common = require("common")

local text

function init(args)
  local options = common.options(args)
  local body = '{"transactionId":"t","partitionId":"' .. options.partition .. '","leaseId":"' .. options.partition .. '"}'
  text = wrk.format("POST", "/api/v1/ack", nil, body)
end

function request()
  return text
end

function response(status)
  if status ~= 200 then
    failed = failed + 1
  end
end
