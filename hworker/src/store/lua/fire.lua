-- fire: take in the runs of a cron entry that are due.
--
-- KEYS[1] jobs       LIST+   waiting envelopes; with `:<list>` behind it those of another list; behind `:cron` the cron entries
-- KEYS[2] scheduled  ZSET    envelope -> due time in ms
-- KEYS[3] token      STRING  the last token of the queue
-- KEYS[4] bell       LIST    at most one token; wakes the process that keeps the timer
-- KEYS[5] stat       HASH    counters of the queue
-- ARGV[1] entry   its name
-- ARGV[2] text    what it says, as the caller read it
-- ARGV[3] seen    when it was due in ms, as the caller read it; '' for a run by hand, which changes nothing of that
-- ARGV[4] next    when it is due next in ms, or '' for never again
-- ARGV[5] missed  when the first of its runs was due that are left out, in ms, or ''
-- ARGV[6] count   how many runs it has in all, or ''
-- ARGV[7] now for each run: when it was due in ms; <list>#<id>; what its key holds it by and the key, or ''; what is done if another holds
--   it; for how long in ms, or ''; its terms; its envelope; as `submit` has them
--
-- Returns {'ok', for each run what became of it, ...}; {'stale'} where the entry is another
-- by now, or not due at that time: nothing was written then.
-- Invariant: a run is taken in by the call that takes its time off the entry. So each comes once, whoever calls, and how often.
local call = redis.call
local jobs, scheduled, token_key, bell, stat = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local entry, text, seen, due, missed, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
-- How many runs an entry remembers.
local most_runs = 60
-- It holds no lease.
local progress = ''

-- include clock
-- include lists
-- include timers
-- include finish
-- include full
-- include unique
-- include cron
-- include cancel
-- Looked at before anything is written: a key that somebody made another type of is an error here, and not half-way.
call('ZCARD', scheduled)
call('LLEN', bell)
call('HLEN', unique)
call('ZCARD', timers)
for i = 7, #ARGV, 7 do look_at_list(ARGV[i + 1]) end
local fields = call('HMGET', cron, 'set:' .. entry, 'code:' .. entry, 'next:' .. entry, 'paused:' .. entry, 'runs:' .. entry, 'fired:' .. entry)
if (fields[1] or fields[2]) ~= text or seen ~= '' and (fields[3] ~= seen or fields[4]) then return {'stale'} end
local runs, reply, fired = fields[5] or '', {'ok'}, tonumber(fields[6]) or 0
if missed ~= '' then runs = runs .. missed .. ' missed\n' end
-- A full server refuses this, and nothing is taken in.
call('HSET', cron, 'runs:' .. entry, runs)
if seen ~= '' then set_next(entry, due) end
if ARGV[7] then
  -- include mark
end
for i = 7, #ARGV, 7 do
  local word, id, state = 'refused', '', ''
  if not full(ARGV[i + 1], ARGV[i + 5]) then
    word, id, state = submit('LPUSH', ARGV[i + 1], nil, ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4]), nil, ARGV[i + 6])
  end
  -- One that runs gives way to this one.
  local where = word == 'follows' and ARGV[i + 3] == 'cancel' and state == 'r' and select(4, standing(id))
  local of_worker, lease = string.match(where or '', '^([^ ]*) (.*)$')
  if lease then order_to_cancel(of_worker, (string.gsub(of_worker, '%-progress%-', '-worker-', 1)), lease) end
  local is_taken = word == 'new' or word == 'replaced' or word == 'follows'
  if is_taken then fired = fired + 1 end
  runs = string.format('%s%s %s\n', runs, ARGV[i], is_taken and 'submitted' or 'skipped')
  reply[#reply + 1] = word
end
local _, lines = string.gsub(runs, '\n', '')
for _ = most_runs + 1, lines do runs = string.match(runs, '^[^\n]*\n(.*)$') end
call('HSET', cron, 'runs:' .. entry, runs)
if seen ~= '' then
  call('HSET', cron, 'fired:' .. entry, string.format('%.0f', fired))
  if most and fired >= most then set_next(entry, '') end
end
return reply
