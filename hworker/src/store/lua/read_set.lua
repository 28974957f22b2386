-- read_set: read members of a sorted set between two scores. Changes nothing.
--
-- KEYS[1] set    ZSET  member -> score
-- KEYS[2] jobs   LIST+ behind `:ids` the envelopes of jobs that are known by their ids
-- ARGV[1] from   the score at which it begins
-- ARGV[2] to     the score at which it ends
-- ARGV[3] order  'up', or 'down' from the highest
-- ARGV[4] skip   how many are left out before the first
-- ARGV[5] want   how many at most (1..1000)
-- ARGV[6] bytes  stop at so many bytes
-- ARGV[7] at_once  how many it reads at once
--
-- Returns {member, score, member, score, ...}, with the envelope behind a member that stands for one.
local call = redis.call
local set, jobs = KEYS[1], KEYS[2]
local from, to, is_down, skip = ARGV[1], ARGV[2], ARGV[3] == 'down', tonumber(ARGV[4])
local want, bytes, at_once = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

-- By ranks, as the server would walk over what is skipped.
local between = is_down and call('ZCOUNT', set, to, from) or call('ZCOUNT', set, from, to)
local before = is_down and call('ZCOUNT', set, '(' .. from, '+inf') or call('ZCOUNT', set, '-inf', '(' .. from)
want = math.min(want, between - skip)
-- include portion
-- include ids
-- include whole
while not is_full() do
  local first = before + skip + n
  local last = first + next_step() - 1
  local part = is_down and call('ZRANGE', set, first, last, 'REV', 'WITHSCORES') or call('ZRANGE', set, first, last, 'WITHSCORES')
  for i = 1, #part, 2 do
    local member = part[i]
    local name, envelope = whole(member)
    if not is_full() then add(name and member .. envelope or envelope, part[i + 1]) end
  end
end
return rows
