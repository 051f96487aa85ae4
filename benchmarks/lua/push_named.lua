-- Push `batch` messages a request to one partition, the partitions in turns, and protect the request against being
-- stored twice: names=ids gives every message a transaction id, names=key the request an idempotency key, names=none
-- nothing.

local common = require("common")

local sent = 0
local options, parts

-- The items of a request, cut where transaction ids go.
local function parts_of(partition)
  local item = string.format(
    '{"queue":"%s","partition":"p%d","payload":%s', options.queue, partition, options.payload
  )
  local last = options.names == "ids" and ',"transactionId":"' or "}"
  local items = {}
  for _ = 1, options.batch do
    items[#items + 1] = item .. last
  end
  return items
end

function init(args)
  options = common.options(args)
  parts = {}
  for partition = 0, options.partitions - 1 do
    local items = parts_of(partition)
    parts[#parts + 1] = options.names == "ids" and items or { table.concat(items, ",") }
  end
end

function request()
  sent = sent + 1
  local items = parts[sent % #parts + 1]
  local body
  if options.names == "ids" then
    local named = {}
    for place, item in ipairs(items) do
      named[place] = string.format('%s%d-%d"}', item, sent, place)
    end
    body = '{"items":[' .. table.concat(named, ",") .. "]}"
  else
    local key = options.names == "key" and string.format(',"idempotencyKey":"%s-%d"', options.queue, sent) or ""
    body = '{"items":[' .. items[1] .. "]" .. key .. "}"
  end
  return wrk.format("POST", "/api/v1/push", nil, body)
end

function response(status, _, body)
  common.note_push(status, body)
end
