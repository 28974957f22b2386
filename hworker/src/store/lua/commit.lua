-- commit: have all jobs come that were staged, and move some of them to their lists.
--
-- KEYS[1] jobs       LIST+   waiting envelopes; with `:<list>` behind it those of another list; behind `:staged:<bulk>` what was staged, see
--   lib/staged.lua
-- KEYS[2] scheduled  ZSET    envelope -> due time in ms
-- KEYS[3] token      STRING  the last token of the queue
-- KEYS[4] bell       LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] bulk       the id of all that come together
-- ARGV[2] count      how many were staged
-- ARGV[3] want       how many are moved at most (0..1000)
-- ARGV[4] bytes      stop at so many bytes
--
-- Returns {'ok', how many are still to be moved}; {'gone'} where other than these were staged, or no more: none of them comes then.
-- Invariant: they come all or none, and each once, whoever moves them and however often this is repeated, within an hour after the last was moved.
local call = redis.call
local jobs, scheduled, token_key, bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- It holds no lease.
local progress = ''
local bulk, count, want, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- include clock
-- include lists
-- include timers
-- include due
-- include staged
-- Looked at before anything is written: a key that somebody made another type of is an error here, and not half-way.
look_at_list('')
call('ZCARD', lists)
call('ZCARD', scheduled)
call('ZCARD', timers)
call('LLEN', bell)
if not is_committed(bulk) then
  local staged = jobs .. ':staged:' .. bulk
  if call('LLEN', staged) ~= count then return {'gone'} end
  -- A full server refuses this, and none comes.
  call('RPUSH', staged, '!')
  call('PERSIST', staged)
end
-- Who commits goes on. Where that one dies, somebody else does, two seconds later.
local _, left = move_staged(bulk, want, 2000)
return {'ok', left}
