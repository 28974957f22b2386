-- submit: take in jobs that are known by their ids: unique ones, and those whose ids the caller gave.
--
-- KEYS[1] jobs       LIST+   waiting envelopes; with `:<list>` behind it those of another list
-- KEYS[2] scheduled  ZSET    envelope -> due time in ms
-- KEYS[3] token      STRING  the last token of the queue
-- KEYS[4] bell       LIST    at most one token; wakes the process that keeps the timer
-- KEYS[5] stat       HASH    counters of the queue
-- ARGV[1] now for each 'LPUSH', or 'RPUSH' to the front; <list>#<id>; when it is due: 'in <ms>', 'at <ms>' or ''; what its key holds it by and
--   the key, or ''; what is done if another holds it, see lib/unique.lua; for how long in ms, or ''; how long in ms it may be put off, or
--   ''; its terms, as `push` has them; its envelope
--
-- Returns {'ok', what became of it, the id of the other or '', how that one stands or '', ...}; {'full', which, how many wait, how many may} where
-- more would wait than may: nothing was written then.
-- Invariant: no two jobs hold one key, and no two living ones have one id.
local call = redis.call
local jobs, scheduled, token_key, bell, stat = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- It holds no lease.
local progress = ''

-- include clock
-- include lists
-- include timers
-- include finish
-- include full
-- include unique
-- Looked at before anything is written: a key that somebody made another type of is an error here, and not half-way.
call('ZCARD', scheduled)
call('LLEN', bell)
call('HLEN', unique)
for i = 1, #ARGV, 9 do
  look_at_list(ARGV[i + 1])
  local waits, most = full(ARGV[i + 1], ARGV[i + 7])
  if waits then return {'full', (i - 1) / 9, waits, most} end
end
-- First, as it does no harm without a job.
-- include mark
local reply = {'ok'}
for i = 1, #ARGV, 9 do
  local base, ms = string.match(ARGV[i + 2], '^(%l+) (%d+)$')
  local due = ms and tonumber(ms) + (base == 'in' and now or 0)
  local word, id, state = submit(ARGV[i], ARGV[i + 1], due, ARGV[i + 3], ARGV[i + 4], tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), ARGV[i + 8])
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = word, id, state
end
return reply
