-- declare: say which limits the job types of a worker have.
--
-- KEYS[1] jobs      LIST+   waiting envelopes; behind `:control` what is in force
-- KEYS[2] bell      LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] declared  a hash of all that follows
-- ARGV[2] now field, value; repeated: 'limit:<limit>' how many at once, 'rate:<limit>' '<count> <period in ms> <burst>'; '' for a value
--   where there is none
--
-- Returns how many of them were others before.
-- Invariant: what somebody set by hand goes on to hold.
local call = redis.call
local jobs, bell = KEYS[1], KEYS[2]
local control = jobs .. ':control'

-- include clock
-- include timers
-- A removal first: a full server lets a script go on once it has written.
call('HDEL', control, '')
local changed = 0
for i = 2, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  local before = call('HGET', control, field) or ''
  if before ~= value then
    changed = changed + 1
    if value == '' then call('HDEL', control, field) else call('HSET', control, field, value) end
    -- More may run at once than before.
    local limit = string.match(field, '^%a*:(.*=)$')
    if limit and call('EXISTS', jobs .. ':lists') == 1 then set_timer('!' .. limit, now, 'CH') end
  end
end
call('HSET', control, 'declared:' .. ARGV[1], time[1])
return changed
