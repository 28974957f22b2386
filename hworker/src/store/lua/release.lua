-- release: give leased envelopes back, uncounted.
--
-- KEYS[1] progress   HASH  lease -> envelope
-- KEYS[2] jobs       LIST+ envelopes; the right end is taken next; with `:<list>` behind it those of a list beside it
-- KEYS[3] scheduled  ZSET  envelope -> due time in ms
-- KEYS[4] bell       LIST  at most one token; wakes the process that keeps the timer
-- KEYS[5] record     HASH  the worker's record
-- ARGV[1] now lease, delay in ms, envelope ('' keeps the bytes); repeated, the youngest lease first
--
-- Returns how many leases were still held.
-- Invariant: an envelope leaves `progress` and enters the list that its lease names in the same script; without a delay it is next,
-- and so it is with one where the jobs of its key run in order.
local call = redis.call
local progress, jobs, scheduled, bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ordered = call('HGET', KEYS[5], 'cancel')

-- include clock
-- include lists
-- include limits
-- include ordered
-- include broadcast
-- Looked at before anything is taken, as in settle.lua.
local needed = {}
for i = 1, #ARGV, 3 do
  if ARGV[i + 1] == '0' or is_in_order(ARGV[i]) or is_ordered(ARGV[i]) then
    look_at_list(goes_to(ARGV[i]))
  else
    needed[scheduled], needed[bell] = 'ZCARD', 'LLEN'
  end
end
for key, look in pairs(needed) do call(look, key) end
local first = needed[scheduled] and call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]

local due, released = math.huge, 0
for i = 1, #ARGV, 3 do
  local lease, delay, envelope = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  if envelope == '' then envelope = call('HGET', progress, lease) end
  if call('HDEL', progress, lease) == 1 then
    released = released + 1
    free(lease, progress)
    local list, is_copy = list_of(lease), broadcast_of(lease)
    if is_ordered(lease) then
      push('RPUSH', goes_to(lease), envelope)
      if is_copy then note_broadcast(lease, 'd') end
    elseif is_copy then
      -- It is this worker's still, unless that ends.
      note_broadcast(lease, string.format('w %.0f\n', now + delay) .. envelope)
    elseif is_in_order(lease) then
      hold_up(lease, delay, envelope)
    elseif delay == 0 then
      push('RPUSH', list, envelope)
    else
      due = math.min(due, now + delay)
      call('ZADD', scheduled, string.format('%.0f', now + delay), later(list, envelope))
    end
  end
end

if due < math.huge then
  -- include wake
end
tell_of_room()
return released
