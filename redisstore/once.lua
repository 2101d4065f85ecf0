-- Holds --------------------------------------------------------------------------------------------------------------

local MAX_HOLDS = 1000 -- rule.MaxHolds

-- lookHolds finds what is held at it.at, and counts it. A hold that was taken more than a window ahead of now, because the clock
-- had jumped ahead, counts as if taken now. It sets it.open to the holds that have not ended: what any change leaves.
local function lookHolds(it)
  it.open, it.ahead = {}, false
  if #it.holds == 0 then
    return
  end
  local held, open = 0, it.open
  for _, hold in ipairs(it.holds) do
    local ends, jumped = hold.ends, hold.ends - hold.length > now + it.window
    if jumped then
      ends = it.at + hold.length
    end
    if ends > it.at then
      held, it.ahead = min(held + hold.units, MAX), it.ahead or jumped
      local place = #open + 1
      while place > 1 and open[place - 1].ends > ends do
        place = place - 1
      end
      table.insert(open, place, { id = hold.id, units = hold.units, ends = ends, length = hold.length })
    end
  end
  it.room = it.room - held
end

-- look evaluates a charge's state at now.
local function look(it)
  it.rule.look(it, now)
  lookHolds(it)
end

local NO_ID = '\0\0\0\0\0\0\0\0' -- identifies nothing

-- findHold returns the place of the hold with the charge's ID, or nothing.
local function findHold(it)
  for n, hold in ipairs(it.open) do
    if hold.id == it.id and hold.id ~= NO_ID then
      return n
    end
  end
end

-- moveBack writes a state that the clock left far ahead as of now.
local function moveBack(it)
  if it.moved then
    it.rule.settle(it)
  end
end

-- endHold ends the hold of the charge's ID and returns its units, or nothing if there is none.
local function endHold(it)
  local n = findHold(it)
  if n then
    moveBack(it)
    return table.remove(it.open, n).units
  end
end

-- hold holds units under the charge's ID, or renews its hold with the units that it has. It returns how many are held.
local function hold(it, units)
  moveBack(it)
  units = endHold(it) or units
  local ends, place = it.at + it.length, #it.open + 1
  while place > 1 and it.open[place - 1].ends > ends do
    place = place - 1
  end
  table.insert(it.open, place, { id = it.id, units = units, ends = ends, length = it.length })
  return units
end

-- keepOpen drops the holds that have ended, if anything of a state has changed.
local function keepOpen(it)
  if it.changed then
    it.holds = it.open
  end
end

-- packHolds returns holds as they are stored, and as Go reads them.
local function packHolds(holds)
  local packed = {}
  for n, hold in ipairs(holds) do
    packed[n] = pack('<c8ddd', hold.id, hold.units, hold.ends, hold.length)
  end
  return table.concat(packed)
end

-- Settlements, and calls that count once -----------------------------------------------------------------------------

-- What is remembered of an address is in two hashes, one for even generations and one for odd ones; see settled.Generation. A
-- field is an ID, and its value the record of rule.Memo, in doubles. One more field has the generation of the hash: its number,
-- counted from 1; when it began, and when its latest record was made; until when they must be remembered, and those of the
-- generation before; and when the hash expires.
local function makeMemory()
  local GENERATION = 'generation'
  local LONG = 600000000 -- rule.LongMemory
  local SETTLED, CANCELLED, CALLED = 0, 1, 2 -- how records begin
  local memory = {}

  -- rotates is settled.Generation.Rotates.
  local function rotates(memo, count)
    local age, full = memo.at - memo.began, count >= memo.max
    return age >= memo.length and memo.at >= memo.before and (age >= LONG or full) or age < -memo.length and full
  end

  -- readRecord reads a record.
  local function readRecord(value)
    local record = {}
    for n = 1, (#value - 1) / 8 do
      record[n] = unpack_('<d', value, 8 * n - 7)
    end
    return record
  end

  -- recall returns what is known of the ID of some items, whose two hashes are the keys from i on.
  function memory.recall(i, items)
    local memo = { number = 0 }
    memo.length, memo.max, memo.at, memo.id = unpack_('<dddc8', ARGV[i + 1])
    memo.at = max(memo.at, now)
    for _, it in ipairs(items) do
      if it.algorithm ~= IN_FLIGHT then
        memo.at = max(memo.at, it.at)
      end
    end
    local known = 0 -- the number of the generation with the record
    for n = 0, 1 do
      local own = call('HMGET', KEYS[i + n], GENERATION, memo.id)
      local generation, value = own[1], own[2]
      memo.version = generation and otherVersion(generation) or value and otherVersion(value)
      if memo.version then
        return memo
      end
      local number, began, newest, lasts, before, dies = 0
      if generation then
        number, began, newest, lasts, before, dies = unpack_('<dddddd', generation)
      end
      if number > memo.number then
        memo.number, memo.began, memo.newest, memo.lasts, memo.before, memo.dies = number, began, newest, lasts, before, dies
      end
      if value and number > known then
        memo.record, known = readRecord(value), number
      end
    end
    local count = memo.number > 0 and call('HLEN', KEYS[i + memo.number % 2]) - 1 or 0
    if memo.number == 0 or rotates(memo, count) then
      memo.number, memo.began, memo.before, memo.begins = memo.number + 1, max(memo.newest or 0, memo.at), memo.lasts or 0, true
      memo.newest, memo.lasts, memo.dies, memo.outlives = 0, 0, 0, memo.dies or 0 -- not gone before the older one
    else
      memo.full = not memo.record and count >= memo.max
    end
    memo.newest, memo.lasts = max(memo.newest, memo.at), max(memo.lasts, memo.at + memo.length)
    memo.key = KEYS[i + memo.number % 2]
    return memo
  end

  -- remember writes a record. It comes before all other writes: if it fails, nothing has changed.
  local function remember(memo, record)
    if memo.begins then
      call('UNLINK', memo.key)
    end
    local last = max(memo.lasts, memo.newest + LONG)
    local renew = grace and last > memo.dies
    if renew then -- most hashes rotate before they would expire
      memo.dies = max(last + max(memo.length, LONG), memo.outlives or 0)
    end
    for n = 1, #record do
      record[n] = pack('<d', record[n])
    end
    call('HSET', memo.key, GENERATION, pack('<dddddd', memo.number, memo.began, memo.newest, memo.lasts, memo.before, memo.dies) .. MARK,
      memo.id, table.concat(record) .. MARK)
    if renew then
      call('PEXPIRE', memo.key, max(1, ceil((memo.dies - now) / 1000) + grace))
    end
  end

  -- called returns when a call was made, how many units it took of an item, and whether it holds them.
  local function called(record, n)
    local at, units = record[2 * n], record[2 * n + 1]
    if record[1] ~= CALLED or not units then
      return 0, 0, false
    end
    return at, math.abs(units), units < 0
  end

  -- settleOne replaces what an item has taken by what was used, and returns how many units it gave back.
  local function settleOne(it, record, n)
    local cost, from, held = it.cost, it.from, it.length
    if it.once then
      from, cost, held = called(record or {}, n)
    end
    local back
    if it.algorithm == IN_FLIGHT then
      back = it.rule.giveBack(it, 1, 1)
    elseif held or it.once and cost == 0 then
      local units = endHold(it)
      it.changed = units ~= nil or it.used > 0
      if it.used > 0 then
        it.rule.charge(it, it.used)
      end
      return (units or 0) - it.used
    elseif it.used < cost then
      back = it.rule.giveBack(it, cost - it.used, from)
    else
      back = cost - it.used
      if back < 0 then
        it.rule.charge(it, -back)
      end
    end
    it.changed = back ~= 0
    return back
  end

  -- settle ends a reservation, once.
  function memory.settle(items, memo)
    local known = memo.record and memo.record[1] ~= CALLED
    local record = { CANCELLED }
    for n, it in ipairs(items) do
      local slot = it.algorithm == IN_FLIGHT
      if not slot or it.once then
        it.repeated, it.unsettled = known, not known and memo.full
      end
      if known then
        it.granted = memo.record[n + 1] or 0
      elseif slot or not memo.full then
        it.granted = settleOne(it, memo.record, n)
      end
      record[n + 1] = it.granted
      if it.used > 0 then
        record[1] = SETTLED
      end
    end
    if memo.key and not known and not memo.full then
      remember(memo, record)
    end
  end

  -- take makes a call, unless it was made or cancelled before. Take decides it.
  function memory.take(items, memo, take)
    local kind = memo.record and memo.record[1]
    if kind then
      for n, it in ipairs(items) do
        it.repeated = true
        if kind == CANCELLED then
          it.allowed, it.lost = false, true
        elseif kind == CALLED then
          local at, units = called(memo.record, n)
          it.granted, it.at = units, at > 0 and at or it.at
        else
          it.granted = it.cost
        end
      end
      return
    end
    take(items)
    local record, admitted = { CALLED }, true
    for n, it in ipairs(items) do
      admitted = admitted and it.allowed
      record[2 * n], record[2 * n + 1] = it.at, it.holding and -it.granted or it.granted
    end
    if admitted and memo.full then
      for _, it in ipairs(items) do
        it.notOnce = true
      end
    elseif admitted then
      remember(memo, record)
    end
  end

  return memory
end
