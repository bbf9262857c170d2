-- line_join: take a place, or learn why there is none. Joining twice is joining once.
--
-- ARGV[11] id
-- ARGV[12] class
-- ARGV[13] key, may be empty
-- returns  DONE with arrival and position, DUPLICATE, ALL_POISONED, ALL_DOWN, FULL or KEY_LIMIT
local id, class, key = ARGV[own], ARGV[own + 1], ARGV[own + 2]

-- present answers a join whose job is there already.
local function present()
  local t, s = lookup(id), running(id)
  if t then
    if t.owner == me then out.arrival = t.arrival else out.verdict = DUPLICATE end
  elseif s then
    if s.owner == me then add(out.grants, s) else out.verdict = DUPLICATE end
  end
  return t or s
end

-- illness is other than DONE when every slot has been out of order for too long.
local function illness()
  local verdict = ALL_DOWN
  for _, s in ipairs(slots) do
    if not sick(s.state) or now - s.since <= grace then return DONE end
    if s.state == POISONED then verdict = ALL_POISONED end
  end
  return verdict
end

local function admit()
  local verdict = illness()
  if verdict ~= DONE then return verdict end
  if redis.call('ZCARD', LINE) >= max_waiting then return FULL end
  if tonumber(redis.call('HGET', BYKEY, key) or 0) >= max_per_key then return KEY_LIMIT end
  return DONE
end

if not present() then
  out.verdict = admit()
  if out.verdict == DONE then
    meta.arrival = math.max(meta.arrival + 1, now)
    out.arrival = meta.arrival
    insert(id, {class = class, arrival = out.arrival, key = key})
  end
end
settle()
out.position = position(id)
return reply()
