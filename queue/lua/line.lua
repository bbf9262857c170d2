-- line: the policy of the queue, put before every other script of this folder.
-- It says in Lua what queue/line says in Go, with the same names.
--
-- KEYS[1]  line     zset, ids of waiting tickets, scored by rank()
-- KEYS[2]  tickets  hash, id -> "owner class arrival key"
-- KEYS[3]  owned    zset, "owner:id" of every waiting ticket, all scored 0
-- KEYS[4]  bykey    hash, key -> how many of its tickets wait
-- KEYS[5]  slots    hash, slot -> "fence state clean since owner id"; no record: idle, unclean
-- KEYS[6]  owners   zset, owner -> end of its lease
-- KEYS[7]  meta     hash, epoch quiet arrival fence version paused slots
-- ARGV[1]  the time for tests, or 0 for the clock of Redis
-- ARGV[2]  the caller's owner name
-- ARGV[3]  the epoch it knows, 0 for none
-- ARGV[4]  most tickets in line
-- ARGV[5]  most tickets of one key in line
-- ARGV[6]  length of a lease
-- ARGV[7]  poison grace
-- ARGV[8]  quiet time
-- ARGV[9]  what an owner's name is put behind to make its channel
-- ARGV[10] names of the slots, one a line
-- ARGV[11] and what follows: the script's own
-- returns  {verdict, epoch, version, waiting, arrival, position, known, mine,
--           grants, holds, lost, more}; grants, holds and lost are flat lists of
--           slot, fence, state, owner, id; more is the script's own
--
-- All times are microseconds. They and the numbers made of them stay below 2^53,
-- where a double counts exactly.
local IDLE, BUSY, ABORTING, POISONED, DOWN = 1, 2, 3, 4, 5
local DONE, STALE, FULL, KEY_LIMIT, ALL_POISONED, ALL_DOWN, DUPLICATE = 0, 1, 2, 3, 4, 5, 6

local LINE, TICKETS, OWNED, BYKEY, SLOTS, OWNERS, META = unpack(KEYS)
local me, survivor, own = ARGV[2], ARGV[3] ~= '0', 11
local max_waiting, max_per_key = tonumber(ARGV[4]), tonumber(ARGV[5])
local lease, grace, quiet_time = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

local out = {verdict = DONE, arrival = 0, position = 0, known = 0, mine = 0,
             grants = {}, holds = {}, lost = {}, more = {}}

-- int writes a whole number without an exponent.
local function int(n) return string.format('%.0f', n) end

-- meta is read whole and written back by finish.
local m = redis.call('HMGET', META, 'epoch', 'quiet', 'arrival', 'fence', 'version', 'paused', 'slots')
local meta = {epoch = tonumber(m[1] or 0), quiet = tonumber(m[2] or 0), arrival = tonumber(m[3] or 0),
              fence = tonumber(m[4] or 0), version = tonumber(m[5] or 0), paused = tonumber(m[6] or 0)}
if meta.epoch == 0 then
  meta.epoch = now
  if survivor then meta.quiet = now + quiet_time end
end

-- One set of slots a line: another set is taken over only when nobody else is there.
-- Whoever held one of the old set is dead then.
if m[7] ~= ARGV[10] then
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', OWNERS, '(' .. int(now), '+inf')) do
    if m[7] and owner ~= me then
      return redis.error_reply('SLOTS another proxy (' .. owner .. ') has other slots on this line')
    end
  end
  redis.call('HSET', META, 'slots', ARGV[10])
  redis.call('DEL', SLOTS)
end

local slots = {}
for name in string.gmatch(ARGV[10], '[^\n]+') do
  slots[#slots + 1] = {slot = name, fence = 0, state = IDLE, clean = 0, since = meta.epoch, owner = '', id = ''}
end
for _, s in ipairs(slots) do
  local record = redis.call('HGET', SLOTS, s.slot)
  if record then
    local fence, state, clean, since, owner, id = string.match(record, '^(%d+) (%d) (%d) (%d+) (%S*) (%S*)$')
    s.fence, s.state, s.clean, s.since = tonumber(fence), tonumber(state), tonumber(clean), tonumber(since)
    s.owner, s.id = owner, id
  end
end

local function slot(name)
  for _, s in ipairs(slots) do
    if s.slot == name then return s end
  end
end

-- held finds the slot that the caller holds by this very fence.
local function held(name, fence)
  local s = slot(name)
  if s and s.state ~= IDLE and s.fence == fence and s.owner == me then return s end
end

-- running finds the slot that is lent to a job.
local function running(id)
  for _, s in ipairs(slots) do
    if s.state == BUSY and s.id == id then return s end
  end
end

local function release(s, clean)
  s.state, s.owner, s.id, s.clean, s.since, s.changed = IDLE, '', '', clean, now, true
end

local function sick(state) return state == POISONED or state == DOWN end

-- ticket reads a record; nil when there is none.
local function ticket(record)
  if not record then return nil end
  local owner, class, arrival, key = string.match(record, '^(%S+) (%d+) (%d+) (.*)$')
  return {owner = owner, class = class, arrival = tonumber(arrival), key = key}
end

-- rank is the ordering rule: first come, first served. The id decides among equals.
local function rank(t) return t.arrival end

-- lookup returns the ticket with this id, nil if it is not in line.
local function lookup(id) return ticket(redis.call('HGET', TICKETS, id)) end

-- withdraw takes tickets out of the line, those that are there.
local function withdraw(ids)
  for from = 1, #ids, 1000 do
    local part = {unpack(ids, from, math.min(from + 999, #ids))}
    local records = redis.call('HMGET', TICKETS, unpack(part))
    local gone, owned, keys, seen = {}, {}, {}, {}
    for i, id in ipairs(part) do
      local t = ticket(records[i])
      if t and not seen[id] then
        seen[id] = true
        gone[#gone + 1] = id
        owned[#owned + 1] = t.owner .. ':' .. id
        if t.key ~= '' then keys[t.key] = (keys[t.key] or 0) + 1 end
      end
    end
    if #gone > 0 then
      redis.call('ZREM', LINE, unpack(gone))
      redis.call('HDEL', TICKETS, unpack(gone))
      redis.call('ZREM', OWNED, unpack(owned))
      for key, n in pairs(keys) do
        if redis.call('HINCRBY', BYKEY, key, -n) <= 0 then redis.call('HDEL', BYKEY, key) end
      end
      meta.version = meta.version + #gone
    end
  end
end

-- drop ends an owner: its tickets leave, its slots are free and unclean.
local function drop(owner)
  local ids = {}
  for i, member in ipairs(redis.call('ZRANGEBYLEX', OWNED, '[' .. owner .. ':', '(' .. owner .. ';')) do
    ids[i] = string.sub(member, #owner + 2)
  end
  withdraw(ids)
  for _, s in ipairs(slots) do
    if s.state ~= IDLE and s.owner == owner then release(s, 0) end
  end
  redis.call('ZREM', OWNERS, owner)
end

-- register makes the caller's entry. When nobody else is there, nobody has watched
-- the idle engines, so they are to be proved again.
local function register()
  if redis.call('ZSCORE', OWNERS, me) then return true end
  if redis.call('ZCARD', OWNERS) == 0 then
    for _, s in ipairs(slots) do
      if s.clean == 1 then s.clean, s.changed = 0, true end
    end
  end
  redis.call('ZADD', OWNERS, int(now + lease), me)
  return false
end

-- insert puts a ticket of the caller in line.
local function insert(id, t)
  register()
  redis.call('ZADD', LINE, int(rank(t)), id)
  redis.call('HSET', TICKETS, id, me .. ' ' .. t.class .. ' ' .. int(t.arrival) .. ' ' .. t.key)
  redis.call('ZADD', OWNED, 0, me .. ':' .. id)
  if t.key ~= '' then redis.call('HINCRBY', BYKEY, t.key, 1) end
  meta.version = meta.version + 1
end

local function add(list, s)
  local n = #list
  list[n + 1], list[n + 2], list[n + 3], list[n + 4], list[n + 5] = s.slot, int(s.fence), s.state, s.owner, s.id
end

-- hand gives a free slot away under a new number, and tells an owner elsewhere.
local function hand(s, owner, id, state)
  meta.fence = math.max(meta.fence + 1, now)
  s.fence, s.state, s.owner, s.id, s.clean, s.since, s.changed = meta.fence, state, owner, id, 0, now, true
  add(out.grants, s)
  if owner ~= me then
    redis.call('PUBLISH', ARGV[9] .. owner, 'granted ' .. int(s.fence) .. ' ' .. state .. ' ' .. id .. ' ' .. s.slot)
  end
end

-- grant hands out what is free: clean slots to those who are next, unclean ones to
-- the owner of whoever is next then, to make the engine idle.
local function grant()
  if meta.paused == 1 or now < meta.quiet then return end
  local function next_in_line() return redis.call('ZRANGE', LINE, 0, 0)[1] end
  for _, s in ipairs(slots) do
    if s.state == IDLE and s.clean == 1 then
      local id = next_in_line()
      if not id then return end
      local t = lookup(id)
      withdraw({id})
      hand(s, t.owner, id, BUSY)
    end
  end
  for _, s in ipairs(slots) do
    if s.state == IDLE then
      local id = next_in_line()
      if not id then return end
      hand(s, lookup(id).owner, '', ABORTING)
    end
  end
end

-- position is 1 for the next in line and 0 for a job that is not in line.
local function position(id)
  return (redis.call('ZRANK', LINE, id) or -1) + 1
end

-- settle ends the changes of a script: hands out slots and writes the books.
local function settle()
  grant()
  for _, s in ipairs(slots) do
    if s.changed then
      redis.call('HSET', SLOTS, s.slot, int(s.fence) .. ' ' .. s.state .. ' ' .. s.clean .. ' ' .. int(s.since)
        .. ' ' .. s.owner .. ' ' .. s.id)
    end
  end
  redis.call('HSET', META, 'epoch', int(meta.epoch), 'quiet', int(meta.quiet), 'arrival', int(meta.arrival),
    'fence', int(meta.fence), 'version', int(meta.version), 'paused', meta.paused)
end

local function reply()
  return {out.verdict, meta.epoch, meta.version, redis.call('ZCARD', LINE), out.arrival, out.position,
          out.known, out.mine, out.grants, out.holds, out.lost, out.more}
end

for _, owner in ipairs(redis.call('ZRANGEBYSCORE', OWNERS, '-inf', int(now))) do drop(owner) end
