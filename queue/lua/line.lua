-- line: the policy of the queue, put before every other script of this folder.
-- It says in Lua what queue/line says in Go, with the same names.
--
-- KEYS[1]  line     zset, ids of waiting tickets, scored by rank()
-- KEYS[2]  tickets  hash, id -> "owner class arrival key"
-- KEYS[3]  bykey    hash, key -> how many of its tickets wait
-- KEYS[4]  books    hash: epoch, quiet, arrival, fence, version, paused, waiting: numbers;
--                   owners: "name deadline tickets" of each, joined by blanks;
--                   slots: their names, one a line;
--                   slot:NAME: "fence state clean since owner id", none: idle and unclean
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
-- where a double counts exactly. A script is mostly the price of its calls, so the
-- books are read in one and written in one.
local IDLE, BUSY, ABORTING, POISONED, DOWN = 1, 2, 3, 4, 5
local DONE, STALE, FULL, KEY_LIMIT, ALL_POISONED, ALL_DOWN, DUPLICATE = 0, 1, 2, 3, 4, 5, 6

local call, format, match = redis.call, string.format, string.match
local LINE, TICKETS, BYKEY, BOOKS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me, own = ARGV[2], 11
local lease, grace = tonumber(ARGV[6]), tonumber(ARGV[7])

local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end

local verdict, arrival, place, known, mine = DONE, 0, 0, 0, 0
local grants, holds, lost, more = {}, {}, {}, {}

-- int writes a whole number without an exponent.
local function int(n) return format('%.0f', n) end

local fields = {'epoch', 'quiet', 'arrival', 'fence', 'version', 'paused', 'waiting', 'owners', 'slots'}
local numbers, slots = 7, {}
for name in string.gmatch(ARGV[10], '[^\n]+') do
  slots[#slots + 1] = {slot = name}
  fields[#fields + 1] = 'slot:' .. name
end
local read = call('HMGET', BOOKS, unpack(fields))
local books, was = {}, {}
for i = 1, numbers do
  was[i] = tonumber(read[i] or 0)
  books[fields[i]] = was[i]
end
if books.epoch == 0 then
  books.epoch = now
  if ARGV[3] ~= '0' then books.quiet = now + ARGV[8] end
end

-- owners are few: a list, and the same by name.
local owners, owners_changed = {}, false
for name, till, tickets in string.gmatch(read[8] or '', '(%S+) (%d+) (%d+)') do
  local o = {name = name, till = tonumber(till), tickets = tonumber(tickets)}
  owners[#owners + 1], owners[name] = o, o
end

-- One set of slots a line: another set is taken over only when nobody else is there.
-- Whoever held one of the old set is dead then.
if read[9] ~= ARGV[10] then
  for _, o in ipairs(owners) do
    if o.till > now and o.name ~= me then
      return redis.error_reply('SLOTS another proxy (' .. o.name .. ') has other slots on this line')
    end
  end
  for name in string.gmatch(read[9] or '', '[^\n]+') do call('HDEL', BOOKS, 'slot:' .. name) end
  call('HSET', BOOKS, 'slots', ARGV[10])
  for i = 10, #fields do read[i] = false end
end

for i, s in ipairs(slots) do
  local record = read[9 + i]
  if record then
    local fence, state, clean, since, owner, id = match(record, '^(%d+) (%d) (%d) (%d+) (%S*) (%S*)$')
    s.fence, s.state, s.clean, s.since = tonumber(fence), tonumber(state), tonumber(clean), tonumber(since)
    s.owner, s.id = owner, id
  else
    s.fence, s.state, s.clean, s.since, s.owner, s.id = 0, IDLE, 0, books.epoch, '', ''
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

-- rank is the ordering rule: first come, first served. The id decides among equals.
local function rank(t) return t.arrival end

-- lookup returns the ticket with this id, nil if it is not in line.
local function lookup(id)
  local record = call('HGET', TICKETS, id)
  if not record then return nil end
  local owner, class, came, key = match(record, '^(%S+) (%d+) (%d+) (.*)$')
  return {owner = owner, class = class, arrival = tonumber(came), key = key}
end

-- count books n tickets more or less, of one owner and one key.
local function count(owner, key, n)
  books.waiting, books.version = books.waiting + n, books.version + math.abs(n)
  owners[owner].tickets, owners_changed = owners[owner].tickets + n, true
  if key ~= '' and call('HINCRBY', BYKEY, key, n) <= 0 then call('HDEL', BYKEY, key) end
end

-- withdraw takes tickets out of the line, those that are there.
local function withdraw(ids)
  for from = 1, #ids, 1000 do
    local part = {unpack(ids, from, math.min(from + 999, #ids))}
    local gone, sums, seen = {}, {}, {}
    for i, record in ipairs(call('HMGET', TICKETS, unpack(part))) do
      local id = part[i]
      if record and not seen[id] then
        local owner, key = match(record, '^(%S+) %d+ %d+ (.*)$')
        seen[id], gone[#gone + 1] = true, id
        sums[owner] = sums[owner] or {}
        sums[owner][key] = (sums[owner][key] or 0) + 1
      end
    end
    if #gone > 0 then
      call('ZREM', LINE, unpack(gone))
      call('HDEL', TICKETS, unpack(gone))
    end
    for owner, keys in pairs(sums) do
      for key, n in pairs(keys) do count(owner, key, -n) end
    end
  end
end

-- drop ends an owner: its tickets leave, its slots are free and unclean. Its tickets
-- have to be searched for among all; a dead process is worth that.
local function drop(o)
  if o.tickets > 0 then
    local ids, prefix, all = {}, o.name .. ' ', call('HGETALL', TICKETS)
    for i = 1, #all, 2 do
      if string.sub(all[i + 1], 1, #prefix) == prefix then ids[#ids + 1] = all[i] end
    end
    withdraw(ids)
  end
  for _, s in ipairs(slots) do
    if s.state ~= IDLE and s.owner == o.name then release(s, 0) end
  end
  for i, other in ipairs(owners) do
    if other == o then table.remove(owners, i) break end
  end
  owners[o.name], owners_changed = nil, true
end

-- owner returns the caller's entry, made if need be. When nobody else is there,
-- nobody has watched the idle engines, so they are to be proved again.
local function owner()
  local o = owners[me]
  if not o then
    if #owners == 0 then
      for _, s in ipairs(slots) do
        if s.clean == 1 then s.clean, s.changed = 0, true end
      end
    end
    o = {name = me, till = now + lease, tickets = 0}
    owners[#owners + 1], owners[me], owners_changed = o, o, true
  end
  return o
end

-- insert puts a ticket of the caller in line.
local function insert(id, t)
  owner()
  call('ZADD', LINE, int(rank(t)), id)
  call('HSET', TICKETS, id, format('%s %s %.0f %s', me, t.class, t.arrival, t.key))
  count(me, t.key, 1)
end

local function add(list, s)
  local n = #list
  list[n + 1], list[n + 2], list[n + 3], list[n + 4], list[n + 5] = s.slot, int(s.fence), s.state, s.owner, s.id
end

-- hand gives a free slot away under a new number, and tells an owner elsewhere.
local function hand(s, to, id, state)
  books.fence = math.max(books.fence + 1, now)
  s.fence, s.state, s.owner, s.id, s.clean, s.since, s.changed = books.fence, state, to, id, 0, now, true
  add(grants, s)
  if to ~= me then
    call('PUBLISH', ARGV[9] .. to, format('granted %.0f %d %s %s', s.fence, state, id, s.slot))
  end
end

local function granting() return books.paused == 0 and now >= books.quiet end

-- grant hands out what is free: clean slots to those who are next, unclean ones to
-- the owner of whoever is next then, to make the engine idle.
local function grant()
  if not granting() then return end
  for _, s in ipairs(slots) do
    if s.state == IDLE and s.clean == 1 and books.waiting > 0 then
      local id = call('ZPOPMIN', LINE)[1]
      local t = lookup(id)
      call('HDEL', TICKETS, id)
      count(t.owner, t.key, -1)
      hand(s, t.owner, id, BUSY)
    end
  end
  for _, s in ipairs(slots) do
    if s.state == IDLE and books.waiting > 0 then
      hand(s, lookup(call('ZRANGE', LINE, 0, 0)[1]).owner, '', ABORTING)
    end
  end
end

-- position is 1 for the next in line and 0 for a job that is not in line.
local function position(id)
  return (call('ZRANK', LINE, id) or -1) + 1
end

-- settle ends the changes of a script: hands out slots and writes the books.
local function settle()
  grant()
  local set = {}
  local function put(field, value)
    set[#set + 1] = field
    set[#set + 1] = value
  end
  for i = 1, numbers do
    local value = books[fields[i]]
    if value ~= was[i] then put(fields[i], int(value)) end
  end
  for i, s in ipairs(slots) do
    if s.changed then
      put(fields[9 + i], format('%.0f %d %d %.0f %s %s', s.fence, s.state, s.clean, s.since, s.owner, s.id))
    end
  end
  if owners_changed then
    local list = {}
    for i, o in ipairs(owners) do list[i] = format('%s %.0f %d', o.name, o.till, o.tickets) end
    put('owners', table.concat(list, ' '))
  end
  if #set > 0 then call('HSET', BOOKS, unpack(set)) end
end

local function reply()
  return {verdict, books.epoch, books.version, books.waiting, arrival, place, known, mine, grants, holds, lost, more}
end

for i = #owners, 1, -1 do
  if owners[i].till <= now then drop(owners[i]) end
end
