-- batch: what becomes true of a batch, each callback once.
-- Needs call, batch, done, bad, fails. Makes callbacks and tell.
--
-- `batch` has 'state': open, sealed or finished; 'total', 'ended' and 'bad': how many members it has, how many have ended, and how many of these
-- not well; 'name' and 'at'. Of each callback that there is it has, under its name, 'waits', 'due', 'pushed' or 'ended', and 'queue:<name>',
-- 'list:<name>', 'at_once:<name>' and 'job:<name>', its envelope. A bit of `done` is a member that has ended, one of `bad` one that did not well.
local callbacks = {'failure', 'settled', 'success'}

-- It is kept for 90 days after the last change; where all that follows is done, for a day, or 14 days if any member ended badly.
local function keep(seconds)
  call('EXPIRE', batch, seconds)
  call('EXPIRE', done, seconds)
  call('EXPIRE', bad, seconds)
  call('EXPIRE', fails, seconds)
end

-- The answer: each callback that is to be pushed, with its queue, its list, how many of its key run at once, and its envelope.
local function tell()
  local of = call('HMGET', batch, 'state', 'total', 'ended', 'bad', unpack(callbacks))
  local has_bad, is_over = (tonumber(of[4]) or 0) > 0, of[1] ~= 'open' and (tonumber(of[3]) or 0) >= (tonumber(of[2]) or 0)
  local is_true, is_finished, answer = {has_bad, is_over, is_over and not has_bad}, is_over, {'ok'}
  for i, name in ipairs(callbacks) do
    local stands = of[4 + i]
    if stands == 'waits' and is_true[i] then
      call('HSET', batch, name, 'due')
      stands = 'due'
    end
    if stands == 'due' then
      answer[#answer + 1] = name
      for _, part in ipairs(call('HMGET', batch, 'queue:' .. name, 'list:' .. name, 'at_once:' .. name, 'job:' .. name)) do
        answer[#answer + 1] = part or ''
      end
    end
    is_finished = is_finished and stands ~= 'due' and stands ~= 'pushed'
  end
  if is_finished then
    if of[1] ~= 'finished' then call('HSET', batch, 'state', 'finished') end
    keep(has_bad and 1209600 or 86400)
  else
    keep(7776000)
  end
  return answer
end
