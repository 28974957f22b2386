-- count: count up a counter of the queue, and of the day.
-- Needs call, stat, day, day_ttl, counter, n.
if n > 0 then
  -- A figure holds up no job: where it cannot be counted up, `settle` has it begin anew.
  redis.pcall('HINCRBY', stat, counter, n)
  redis.pcall('HINCRBY', day, counter, n)
  call('EXPIRE', day, day_ttl)
end
