-- tables: what programs declare in their code, and which of it is in force.
-- Needs call, now, jobs. Makes tables, known_tables, is_older and newest.
--
-- `tables` has of each table of a program, by `<app> <hash>`, when the server first saw it, `first:`, when a worker told of it last, `seen:`, and
-- whether its entries ran that are due once, `booted:`; and of each program `force:<app>`, the hash that is in force, `of:<app>`, the names that
-- this declares, a line each, and `pin:<app>`, the hash at which somebody holds it.
local tables = jobs .. ':tables'

local function known_tables()
  local fields, all = call('HGETALL', tables), {}
  for i = 1, #fields, 2 do all[fields[i]] = fields[i + 1] end
  return all
end

-- No worker told of it for so many ms.
local function is_older(all, of, ms) return now - (tonumber(all['seen:' .. of]) or 0) > ms end

-- Of the tables of a program that have workers, the one that the server knows for the shortest time. `steady`: for how many ms the caller has
-- reached the server. Before it did, others could not either, and their silence says nothing.
local function newest(all, app, live, steady)
  local found, first
  for field, seen in pairs(all) do
    local whose, hash = string.match(field, '^seen:(.*) ([^ ]*)$')
    seen = tonumber(seen) or 0
    if whose == app and (steady < live or now - seen <= live) and seen - now <= live then
      local at = tonumber(all['first:' .. app .. ' ' .. hash]) or 0
      if not found or at > first or at == first and hash > found then found, first = hash, at end
    end
  end
  return found
end
