-- timers: have the process that keeps the timer open a limit when it is time.
-- Needs call, jobs, bell. Makes timers and set_timer.
--
-- `timers` has by time in ms limits that are closed until then, and, with a `!` in front, limits whose keys are to be looked at then: a pause
-- is over, or somebody changed something. See promote.lua.
local timers = jobs .. ':timers'

-- `how`: GT, so that an earlier time leaves it as it is, or CH.
local function set_timer(member, due, how)
  due = math.ceil(due)
  local first = redis.pcall('ZRANGE', timers, 0, 0, 'WITHSCORES')
  if first.err then return end
  first = first[2]
  call('ZADD', timers, how, string.format('%.0f', due), member)
  -- include wake
end
