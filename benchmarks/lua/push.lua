-- Push `batch` messages a request. The partitions of a queue take turns; with spread=1 every message of a
-- request goes to the next partition, else a request stays in one partition.

local common = require("common")

local next_request

local function body_of(options, first)
  local items = {}
  for offset = 0, options.batch - 1 do
    local partition = (first + offset * options.spread) % options.partitions
    items[#items + 1] = string.format(
      '{"queue":"%s","partition":"p%d","payload":%s}', options.queue, partition, options.payload
    )
  end
  return '{"items":[' .. table.concat(items, ",") .. "]}"
end

function init(args)
  local options = common.options(args)
  local requests = {}
  for first = 0, options.partitions - 1 do
    requests[#requests + 1] = wrk.format("POST", "/api/v1/push", nil, body_of(options, first))
  end
  next_request = common.in_turn(requests)
end

function request()
  return next_request()
end

function response(status, _, body)
  common.note_push(status, body)
end
