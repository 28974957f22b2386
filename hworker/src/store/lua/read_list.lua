-- read_list: read elements of a list from a place on. Changes nothing.
--
-- KEYS[1] list   LIST  payloads, or ids of jobs
-- KEYS[2] jobs   LIST+ behind `:ids` the envelopes of jobs that are known by their ids
-- ARGV[1] place  how many are before the first, from the end where it begins
-- ARGV[2] from   the end where it begins: 'left' or 'right'
-- ARGV[3] want   how many at most (1..1000)
-- ARGV[4] bytes  stop at so many bytes
-- ARGV[5] deepest  the place that is read at most, from the nearer end
-- ARGV[6] by_id  the name of the list where it has ids, else ''
-- ARGV[7] largest  a payload of more bytes is left out: '' stands in its place
--
-- Returns {length of the list, payload, payload, ...}, no payload behind the end or deeper than `deepest`.
local call = redis.call
local list, jobs = KEYS[1], KEYS[2]
local place, from_right, want, bytes = tonumber(ARGV[1]), ARGV[2] == 'right', tonumber(ARGV[3]), tonumber(ARGV[4])

local of_ids, largest = ARGV[6], tonumber(ARGV[7])
-- include ids
-- What an id stands for there; what an edit leaves in place of a job where it stands there no more.
local function shown(id)
  local state, of_list, _, envelope = standing(string.match(call('HGET', ids, id) or '', '^>(.*)$') or id)
  return state == 'w' and of_list == of_ids and envelope or '-'
end

local length = call('LLEN', list)
local depth = math.min(place, length - place)
-- The server walks from the nearer end to where a step begins, a million elements in up to 1 ms: the deeper, the larger are the steps, and
-- after 4 million it is enough.
local at_once, walks = math.min(math.max(2, math.floor(depth / 2000)), 250), 4000000 / math.max(1, depth)
-- include portion
rows[1] = length
if depth > tonumber(ARGV[5]) then return rows end
while not is_full() and walks > 0 do
  local first, step = place + n, next_step()
  local last = first + step - 1
  if from_right then first, last = -1 - last, -1 - first end
  local part = call('LRANGE', list, first, last)
  for i = 1, #part do
    local element = part[from_right and #part + 1 - i or i]
    if not is_full() then
      local payload = of_ids == '' and element or shown(element)
      add(#payload > largest and '' or payload)
    end
  end
  if #part < step then break end
  walks = walks - 1
end
return rows
