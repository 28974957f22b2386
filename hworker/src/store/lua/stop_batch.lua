-- stop_batch: have workers of a queue start no member of a batch any more, or again.
--
-- KEYS[1] jobs   LIST+   waiting envelopes; behind `:stopped` the batches of which none starts, behind `:paused:<batch>` those that were met
-- KEYS[2] token  STRING  the last token of the queue
-- KEYS[3] bell   LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] group  the batch
-- ARGV[2] stop   'cancelled', 'paused', or ''
-- ARGV[3] look   ms after which the process that keeps the timer is to look at the batch, or '' if it is to forget it
--
-- Returns how many that were met still stand beside the queue.
-- Invariant: one that was met leaves its place and enters its list in the same script. The last one that was met goes back first, so that the first is
-- the next to run.
local call = redis.call
local jobs, token_key, bell = KEYS[1], KEYS[2], KEYS[3]
local progress = ''
local group, stop, look = ARGV[1], ARGV[2], ARGV[3]
local stopped, paused, batches = jobs .. ':stopped', jobs .. ':paused:' .. group, jobs .. ':batches'

-- include clock
-- include lists
call('HLEN', stopped)
call('LLEN', paused)
call('ZCARD', batches)
call('LLEN', jobs)
local names = stop ~= 'paused' and call('LLEN', paused) > 0 and call('LRANGE', paused, -1000, -1) or {}
for i, member in ipairs(names) do
  local name = string.match(member, '^:%d*([^\n]*)\n')
  names[i] = name and name ~= '' and read(name) and name or ''
  look_at_list(names[i])
end

-- First, as a full server lets a script go on once it has written.
call('HDEL', stopped, '')
local said = call('HGET', stopped, group) or ''
if said ~= stop then
  call('HDEL', stopped, group)
  if stop ~= '' then call('HSET', stopped, group, stop) end
  call('HINCRBY', stopped, 'v', 1)
end
if look == '' then
  call('ZREM', batches, group)
else
  call('ZADD', batches, string.format('%.0f', now + look), group)
end
local is_marked = false
for i = #names, 1, -1 do
  local name, member = names[i], call('RPOP', paused)
  local envelope = member
  if name ~= '' then
    if not is_marked then
      -- include mark
      is_marked = true
    end
    local from, state = string.match(member, '\n()'), 's'
    envelope = string.sub(member, from)
    if read(name).id then state, _, _, envelope = standing(read(name).id) end
    if state ~= 's' then envelope = nil end
  end
  if envelope then push('RPUSH', name, envelope) end
end
return stop == 'paused' and 0 or call('LLEN', paused)
