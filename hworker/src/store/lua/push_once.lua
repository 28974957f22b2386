-- push_once: enqueue the callback of a batch, unless it was enqueued before.
--
-- KEYS[1] jobs   LIST+   waiting envelopes; behind `:pushed:<batch>` which of its callbacks were pushed here
-- KEYS[2] token  STRING  the last token of the queue
-- KEYS[3] bell   LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] group     the batch
-- ARGV[2] callback  its name
-- ARGV[3] list      where it waits
-- ARGV[4] at_once   how many of its key run at once, as its arguments say, or ''
-- ARGV[5] envelope  the job
--
-- Returns 'ok', or 'again'.
-- Invariant: one callback is enqueued once, however often this is repeated within 7 days.
local call = redis.call
local jobs, token_key, bell = KEYS[1], KEYS[2], KEYS[3]
-- It holds no lease.
local progress = ''
local group, list, envelope = ARGV[1], ARGV[3], ARGV[5]
local pushed = jobs .. ':pushed:' .. group

if call('HEXISTS', pushed, ARGV[2]) == 1 then return 'again' end
-- include lists
look_at_list(list)
call('LLEN', bell)
-- First, as a full server lets a script go on once it has written.
call('HDEL', pushed, '')
if list ~= '' then
  -- include mark
end
call('HSET', pushed, ARGV[2], '1')
call('EXPIRE', pushed, 604800)
note_arguments(list, ARGV[4])
push('LPUSH', list, envelope)
return 'ok'
