-- types: the job types whose jobs belong to lists with a limit of that name, so that they can be held up.
-- Needs call, jobs. Makes note_type and forget_type.
local function types_noted()
  local types = redis.pcall('HGET', jobs .. ':control', 'types')
  return type(types) == 'string' and types or ''
end

local function note_type(name)
  local types = types_noted()
  if not string.find(' ' .. types, ' ' .. name .. ' ', 1, true) then call('HSET', jobs .. ':control', 'types', types .. name .. ' ') end
end

local function forget_type(name)
  local types = types_noted()
  local at = string.find(' ' .. types, ' ' .. name .. ' ', 1, true)
  if not at then return end
  types = string.sub(types, 1, at - 1) .. string.sub(types, at + #name + 1)
  if types == '' then call('HDEL', jobs .. ':control', 'types') else call('HSET', jobs .. ':control', 'types', types) end
end
