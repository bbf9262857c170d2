-- moves: how tickets and slots change hands. It stands behind order.lua.

-- owner returns the caller's entry, made if need be. When nobody else is there,
-- nobody has watched the idle engines, so they are to be proved again.
function line.owner()
  local o = owners[me]
  if not o then
    if #owners == 0 then
      for _, s in ipairs(slots) do
        s.clean = 0
      end
    end
    o = {name = me, till = now + lease, tickets = 0}
    owners[#owners + 1], owners[me] = o, o
  end
  return o
end

-- count books one ticket more (n is 1) or less (-1) of an owner and of accounts.
function line.count(t, a, n)
  books.waiting, books.version = books.waiting + n, books.version + 1
  if t.class ~= '2' then books.pressing = books.pressing + n end
  owners[t.owner].tickets = owners[t.owner].tickets + n
  while a do
    local was = a.waiting > 0
    a.waiting, a.cost = a.waiting + n, a.cost + n * t.cost
    if was ~= (a.waiting > 0) then
      if a.within then a.within.claimants = a.within.claimants + n else books.claimants = books.claimants + n end
    end
    a = a.within
  end
end

-- insert puts a ticket of the caller in line, and returns the account in whose queue it is.
function line.insert(t)
  line.owner()
  t.owner = me
  if t.cost == 0 then t.cost = books.typical end
  local a = line.open(t)
  call('ZADD', QUEUES, 0, line.member(a, t))
  call('HSET', TICKETS, t.id, format('%s %s %.0f %.0f %.0f %s ', me, t.class, t.arrival, t.cost, t.prefer, t.user) .. t.key)
  line.count(t, a, 1)
  return a
end

-- take takes the first ticket of an account out of the line.
function line.take(a)
  local t = line.head(a)
  line.count(t, a, -1)
  call('ZREM', QUEUES, t.member)
  call('HDEL', TICKETS, t.id)
  return t
end

function line.add(list, s)
  local n = #list
  list[n + 1], list[n + 2], list[n + 3], list[n + 4], list[n + 5] = s.slot, line.int(s.fence), s.state, s.owner, s.id
end

-- hand gives a free slot away under a new number, and tells an owner elsewhere.
function line.hand(s, to, id, state)
  books.fence = math.max(books.fence + 1, now)
  s.fence, s.state, s.owner, s.id, s.clean, s.since = books.fence, state, to.owner, id, 0, now
  if state == BUSY then s.purse, s.user, s.came, s.cost = to.purse, to.user, to.arrival, to.cost end
  line.add(grants, s)
  if to.owner ~= me then
    call('PUBLISH', ARGV[9] .. to.owner, format('granted %.0f %d %s %s', s.fence, state, id, s.slot))
  end
end

function line.granting() return books.gate == OPEN and now >= books.quiet end

-- ready finds a clean slot that is free, the first of those preferred or, if there is
-- none, the first of all. Prefer is a number with a bit for each.
function line.ready(prefer)
  local first
  for i, s in ipairs(slots) do
    if s.state == IDLE and s.clean == 1 then
      if math.floor(prefer / 2 ^ (i - 1)) % 2 == 1 then return s end
      first = first or s
    end
  end
  return first
end

-- grant hands out what is free: clean slots to those who are next, unclean ones to
-- the owner of whoever is next then, to make the engine idle.
function line.grant()
  if not line.granting() then return end
  while books.waiting > 0 and line.ready(0) do
    local t = line.take(line.upcoming())
    line.hand(line.ready(t.prefer), t, t.id, BUSY)
  end
  local t
  for _, s in ipairs(slots) do
    if s.state == IDLE and books.waiting > 0 then
      t = t or line.head(line.upcoming())
      line.hand(s, t, '', ABORTING)
    end
  end
end

-- youngest is the slot that was lent last to a batch job, of those that may be asked for.
function line.youngest()
  local best
  for _, s in ipairs(slots) do
    if s.state == BUSY and string.sub(s.purse, 1, 1) == '2' and s.asked == UNASKED and not (best and s.fence < best.fence)
      and line.since(line.account(s.purse)) > cutoff then
      best = s
    end
  end
  return best
end

-- ask asks for slots that batch jobs have, when jobs of better classes wait.
function line.ask()
  if books.waiting == 0 or not line.granting() or not line.youngest() then return end
  if line.foremost().class == '2' then return end
  local short = books.pressing
  for _, s in ipairs(slots) do
    if s.state == ABORTING or s.state == BUSY and s.asked == ASKED then short = short - 1 end
  end
  while short > 0 do
    local s = line.youngest()
    if not s then return end
    s.asked, s.told, short = ASKED, true, short - 1
    line.add(asks, s)
    if s.owner ~= me then call('PUBLISH', ARGV[9] .. s.owner, format('wanted %.0f %s', s.fence, s.slot)) end
  end
end

-- settle ends the changes of a script: hands out slots and writes the books.
function line.settle()
  line.grant()
  line.ask()
  local set = line.file()
  local people, berths = {}, {}
  for i, o in ipairs(owners) do people[3 * i - 2], people[3 * i - 1], people[3 * i] = o.name, o.till, o.tickets end
  for _, s in ipairs(slots) do
    local n = #berths
    berths[n + 1], berths[n + 2], berths[n + 3], berths[n + 4], berths[n + 5], berths[n + 6] = s.slot, s.fence, s.state, s.clean, s.since, s.came
    berths[n + 7], berths[n + 8], berths[n + 9], berths[n + 10], berths[n + 11], berths[n + 12] = s.cost, s.asked, s.owner, s.id, s.user, s.purse
  end
  local text = cmsgpack.pack(
    books.epoch, books.quiet, books.arrival, books.fence, books.version, books.gate, books.waiting, books.typical, books.pressing,
    books.claimants, books.idle, people, ARGV[10], berths)
  if text ~= record then set[#set + 1], set[#set + 2] = 'line', text end
  for from = 1, #set, 1000 do call('HSET', BOOKS, unpack(set, from, math.min(from + 999, #set))) end
end

-- tell_running fills in what the slots are doing that are not out of order, unless the
-- gate is closed.
function line.tell_running()
  if books.gate ~= OPEN then return end
  for _, s in ipairs(slots) do
    if not line.sick(s.state) then
      running_for[#running_for + 1] = line.spent(s, now)
      running_for[#running_for + 1] = s.state == BUSY and s.cost or 0
    end
  end
end

-- ill is POISONED or DOWN if every slot is one of them, and 0 if one is not.
function line.ill()
  local state = DOWN
  for _, s in ipairs(slots) do
    if not line.sick(s.state) then return 0 end
    if s.state == POISONED then state = POISONED end
  end
  return state
end

function line.reply()
  return {
    verdict, books.epoch, books.version, books.waiting, arrival, place, work, known, mine, books.gate, line.ill(),
    grants, holds, lost, asks, running_for, more,
  }
end

-- Jobs of slots of another set run no more.
for _, s in ipairs(former) do
  local a = line.account(s.purse)
  if a and a.apart then line.get(line.of_users(a), s.user) end
end

for i = #owners, 1, -1 do
  if owners[i].till <= now then line.drop(owners[i]) end
end
