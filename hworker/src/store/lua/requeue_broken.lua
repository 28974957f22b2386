-- requeue_broken: put a broken payload back at the end of its queue.
--
-- KEYS[1] broken  HASH  payload -> count, time in ms, reason
-- KEYS[2] jobs    LIST  envelopes; new ones go to its left
-- KEYS[3] kept    PREFIX of a STRING each `<id>`: how a job ended that keeps its result
-- ARGV[1] payload
-- ARGV[2] id      of a job that keeps its result: it runs again, so nothing is kept of its end; else ''
--
-- Returns 'ok', or 'missing' when it is not there.
-- Invariant: it leaves `broken` and enters `jobs` in the same script, once however many ask.
local call = redis.call
local broken, jobs, kept = KEYS[1], KEYS[2], KEYS[3]
local payload, id = ARGV[1], ARGV[2]

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
call('LLEN', jobs)

if call('HDEL', broken, payload) == 0 then return 'missing' end
call('LPUSH', jobs, payload)
if id ~= '' then call('DEL', kept .. id) end
return 'ok'
