-- cron: set, remove, pause or resume a cron entry.
--
-- KEYS[1] jobs  LIST+  waiting envelopes; behind `:cron` the cron entries, see lib/cron.lua, behind `:tables` which programs declare what
-- KEYS[2] bell  LIST   at most one token; wakes the process that keeps the timer
-- ARGV[1] what   'set', 'remove', 'pause' or 'resume'
-- ARGV[2] entry  its name
-- ARGV[3] next   when it is due next in ms, '' if never; of 'pause' nothing
-- ARGV[4] text   what is set; else nothing
-- ARGV[5] most   how many fields there may be
-- ARGV[6] live   ms; a table of which no worker told for so long has none
--
-- Returns 'ok'; 'same' where it was so before; 'missing' where there is none; 'declared' where code declares it of which a worker lives, so that it
-- is not removed; 'full' where there are too many; 'late' where it is due by now: the caller reckons again.
-- Invariant: an entry that is set or resumed is due after now; what was due before is not made up for.
local call = redis.call
local jobs, bell = KEYS[1], KEYS[2]
local what, entry, due, text, live = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])

-- include clock
-- include timers
-- include cron
-- include tables
-- Looked at before anything is written: a key that somebody made another type of is an error here, and not half-way.
call('ZCARD', timers)
call('LLEN', bell)
local all = known_tables()
local fields = call('HMGET', cron, 'set:' .. entry, 'code:' .. entry, 'paused:' .. entry)
local set, code, paused = fields[1], fields[2], fields[3]
if (tonumber(due) or math.huge) <= now then return 'late' end
if what == 'set' then
  if says_same(set, text) then return 'same' end
  if not set and not code and call('HLEN', cron) >= tonumber(ARGV[5]) then return 'full' end
  call('HSET', cron, 'set:' .. entry, text)
  call('HDEL', cron, 'fired:' .. entry)
  set_next(entry, due)
  return 'ok'
end
if not set and not code then return 'missing' end
if what == 'pause' then
  if paused then return 'same' end
  call('HSET', cron, 'paused:' .. entry, string.format('%.0f', now))
  call('ZREM', timers, '@' .. entry)
elseif what == 'resume' then
  if not paused then return 'same' end
  call('HDEL', cron, 'paused:' .. entry)
  set_next(entry, due)
elseif set and code then
  -- What runs the entry had counts for what was set alone.
  call('HDEL', cron, 'set:' .. entry, 'fired:' .. entry)
  set_next(entry, due)
else
  for field, names in pairs(all) do
    local app = not set and string.match(field, '^of:(.*)$')
    local is_its = app and string.find('\n' .. names .. '\n', '\ncron:' .. entry .. '\n', 1, true)
    if is_its and not is_older(all, app .. ' ' .. (all['force:' .. app] or ''), live) then return 'declared' end
  end
  call('HDEL', cron, 'set:' .. entry)
  remove_code(entry)
end
return 'ok'
