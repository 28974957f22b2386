-- push: put envelopes into a list of a queue beside its plain one, or to the front of one.
--
-- KEYS[1] jobs   LIST+   waiting envelopes of the normal priority; with `:<list>` behind it those of another
-- KEYS[2] token  STRING  the last token of the queue
-- ARGV[1] list   its name; '' for the plain one
-- ARGV[2] how    'LPUSH', or 'RPUSH' to the front
-- ARGV[3] now the envelopes, the first of them ahead of the others
--
-- Returns 'ok'.
-- Invariant: all are there or, where the server refuses the first write, none is; and a worker is told.
local call = redis.call
local jobs, token_key = KEYS[1], KEYS[2]
local list, how = ARGV[1], ARGV[2]

-- include lists
look_at_list(list)
if list ~= '' then
  -- First, as it does no harm without a job.
  -- include mark
end
local from, to, step = 3, #ARGV, 1
if how == 'RPUSH' then from, to, step = to, from, -1 end
for i = from, to, step do push(how, list, ARGV[i]) end
return 'ok'
