-- cron: the cron entries of a queue.
-- Needs call, jobs, and lib/timers. Makes cron, set_next, says_same and remove_code.
--
-- `cron` has for each entry `code:<entry>`, what the table in force says of it, `set:<entry>`, what somebody set instead, `next:<entry>`, when
-- it is due in ms, `paused:<entry>`, since when in ms, `fired:<entry>`, how many runs it had, and `runs:<entry>`, the last of them, a line
-- each: when it was due in ms, and what became of it.
local cron = jobs .. ':cron'

-- '' for never again.
local function set_next(entry, due)
  if due == '' then
    call('HDEL', cron, 'next:' .. entry)
    call('ZREM', timers, '@' .. entry)
    return
  end
  call('HSET', cron, 'next:' .. entry, due)
  call('ZREM', timers, '@' .. entry)
  if call('HEXISTS', cron, 'paused:' .. entry) == 0 then set_timer('@' .. entry, tonumber(due), 'CH') end
end

-- The first line is a hash of what an entry says.
local function says_same(one, other)
  return one and other and string.match(one, '^[^\n]*') == string.match(other, '^[^\n]*')
end

-- No code declares it any more; what somebody set goes on.
local function remove_code(entry)
  call('HDEL', cron, 'code:' .. entry)
  if call('HEXISTS', cron, 'set:' .. entry) == 1 then return end
  set_next(entry, '')
  call('HDEL', cron, 'paused:' .. entry, 'fired:' .. entry, 'runs:' .. entry)
end
