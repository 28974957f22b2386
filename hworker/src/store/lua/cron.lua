-- cron: set, remove, pause or resume what runs again and again.
--
-- KEYS[1] jobs  LIST+  waiting envelopes; behind `:cron` what runs again and again, see lib/cron.lua
-- KEYS[2] bell  LIST   at most one token; wakes the process that keeps the timer
-- ARGV[1] what   'set', 'remove', 'pause' or 'resume'
-- ARGV[2] entry  its name
-- ARGV[3] next   when it is due next in ms, '' if never; of 'pause' nothing
-- ARGV[4] text   what is set; else nothing
-- ARGV[5] most   how many fields there may be
--
-- Returns 'ok'; 'same' where it was so before; 'missing' where there is none; 'declared' where only code says it, which removes it; 'full' where
-- there are too many.
-- Invariant: an entry that is set or resumed is due after now; what was due before is not made up for.
local call = redis.call
local jobs, bell = KEYS[1], KEYS[2]
local what, entry, due, text = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include clock
-- include timers
-- include cron
-- A removal first: a full server lets a script go on once it has written.
call('HDEL', cron, '')
local fields = call('HMGET', cron, 'set:' .. entry, 'code:' .. entry, 'paused:' .. entry)
local set, code, paused = fields[1], fields[2], fields[3]
if what == 'set' then
  if set == text then return 'same' end
  if not set and not code and call('HLEN', cron) >= tonumber(ARGV[5]) then return 'full' end
  call('HSET', cron, 'set:' .. entry, text)
  set_next(entry, due)
  return 'ok'
end
if not set and not code then return 'missing' end
if what == 'remove' then
  if not set then return 'declared' end
  call('HDEL', cron, 'set:' .. entry)
  if code then
    set_next(entry, due)
  else
    set_next(entry, '')
    call('HDEL', cron, 'paused:' .. entry, 'fired:' .. entry, 'runs:' .. entry)
  end
elseif what == 'pause' then
  if paused then return 'same' end
  call('HSET', cron, 'paused:' .. entry, now)
  call('ZREM', timers, '@' .. entry)
else
  if not paused then return 'same' end
  call('HDEL', cron, 'paused:' .. entry)
  set_next(entry, due)
end
return 'ok'
