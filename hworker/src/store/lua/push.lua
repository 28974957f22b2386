-- push: put envelopes into lists of a queue beside its plain one, or to the front of one.
--
-- KEYS[1] jobs   LIST+   waiting envelopes of the normal priority; with `:<list>` behind it those of another list
-- KEYS[2] token  STRING  the last token of the queue
-- KEYS[3] bell   LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] how    'LPUSH', or 'RPUSH' to the front
-- ARGV[2] now list, terms, envelope; repeated, the first of them ahead of the others: '' is the plain list; terms are '' or, in a list
--   with a key, '<how many run at once, by the arguments, or -> <how many may wait, or -> <wait, newest or oldest>'
--
-- Returns {'ok'}; {'full', which, how many wait, how many may} where more would wait than may: nothing was written then.
-- Invariant: all are there or, where the server refuses the first write, none is; and a worker is told.
local call = redis.call
local jobs, token_key, bell = KEYS[1], KEYS[2], KEYS[3]
-- It holds no lease.
local progress = ''
local how = ARGV[1]

-- include lists
-- include full
local is_plain, needs_limits = true, false
for i = 2, #ARGV, 3 do
  local list, terms = ARGV[i], ARGV[i + 1]
  if not noted[list] then
    noted[list] = true
    look_at_list(list)
  end
  is_plain = is_plain and list == ''
  needs_limits = needs_limits or terms ~= ''
  local waits, most = full(list, terms)
  if waits then return {'full', (i - 2) / 3, waits, most} end
end
noted = {}
if not is_plain then
  -- First, as it does no harm without a job.
  -- include mark
end

-- include place
local from, to, step = 2, #ARGV, 3
if how == 'RPUSH' then from, to, step = #ARGV - 2, 2, -3 end
for i = from, to, step do
  place(how, ARGV[i], ARGV[i + 1], ARGV[i + 2])
end
return {'ok'}
