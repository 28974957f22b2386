-- batch: what becomes true of a batch, each callback once.
-- Needs call, batch, done, bad, fails, adds. Makes callbacks, is_stopped, keep and tell.
--
-- `batch` has 'state': open, sealed or finished; 'stop', where somebody ordered it: paused, cancelled or abandoned; 'given', 'total', 'ended' and
-- 'bad': how many numbers it gave out, how many members it has, how many have ended, and how many of these not well; 'name', 'at', 'added' (when it
-- grew last, in ms), 'queues' (the labels of all that its members were sent to), 'tags' and 'meta' (JSON), 'expires' (ms); 'parent' (the batch, and
-- its number there), 'depth', 'children' and 'told' (how it ended, as the parent knows). Of each callback that there is it has, under its name,
-- 'waits', 'due', 'pushed' or 'ended', and 'queue:<name>', 'list:<name>', 'at_once:<name>' and 'job:<name>', its envelope. What is being added has
-- a field 'add:<name>', and goes to `adds` when it is in. A bit of `done` is a member that has ended, one of `bad` one that did not well.
local callbacks = {'failure', 'settled', 'success'}

local function is_stopped(stop) return stop == 'cancelled' or stop == 'abandoned' end

-- It is kept for 90 days after the last change; where all that follows is done, for a day, or 14 days if any member ended badly. No longer than it
-- says itself.
local function keep(seconds)
  local expires = tonumber(call('HGET', batch, 'expires'))
  if expires then
    local time = call('TIME')
    seconds = math.min(seconds, math.ceil(expires / 1000 - time[1]))
  end
  for _, key in ipairs({batch, done, bad, fails, adds}) do call('EXPIRE', key, seconds) end
end

-- The answer: each callback that is to be pushed, with its queue, its list, how many of its key run at once, and its envelope; and as 'parent:good' or
-- 'parent:bad' what its parent is to be told, with the parent, its number there, and how it ended.
local function tell()
  local of = call('HMGET', batch, 'state', 'total', 'ended', 'bad', 'stop', 'parent', 'told', unpack(callbacks))
  local has_bad, is_over = (tonumber(of[4]) or 0) > 0, of[1] ~= 'open' and (tonumber(of[3]) or 0) >= (tonumber(of[2]) or 0)
  local is_well = is_over and not has_bad and not is_stopped(of[5])
  local is_true, is_finished, has_failed, answer = {has_bad, is_over, is_well}, is_over, false, {'ok'}
  for i, name in ipairs(callbacks) do
    local stands = of[7 + i]
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
    has_failed = has_failed or stands == 'ended' and call('HEXISTS', batch, 'failed:' .. name) == 1
  end
  if is_finished then
    if of[1] ~= 'finished' then call('HSET', batch, 'state', 'finished') end
    local word = is_well and not has_failed and 'good' or 'bad'
    if of[6] and of[7] ~= word then
      local parent, number = string.match(of[6], '^(%S+) (%d+)$')
      local how = is_stopped(of[5]) and 'cancelled' or word == 'good' and 'done' or 'failed'
      for _, part in ipairs({'parent:' .. word, parent or '', number or '', how, ''}) do answer[#answer + 1] = part end
    end
    keep(has_bad and 1209600 or 86400)
  else
    keep(7776000)
  end
  return answer
end
