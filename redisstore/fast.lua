-- The decision rule at the data: it decides requests in order, each over one or more keys, all or nothing.
--
-- KEYS     one per charge, and after those of a request whose ID is remembered two hashes; for a fast path each key once
-- ARGV[1]  packed: the time in microseconds or -1 for the server's own; the milliseconds that a state is kept after it no
--          longer matters, or -1 to keep it forever (for tests); the fast path to take, or 0. For a fast path the packed
--          limits follow
-- ARGV[2]  for a fast path: for every charge whether the next one has the same key, plus 2 if it is a refund; the index of
--          its limit; and its cost. It is omitted if every key has one charge of the first limit, with the cost that is
--          packed with that limit
-- ARGV[3]  for a fast path: when the refunded units were charged
-- ARGV[2+] without a fast path: one packed string per key; the first charge of a request has their number
--
-- It returns one string: the time and how many charges a fast path has decided, then its reply to them; and for every
-- other charge the decision and the state that the answer is derived from. The time alone means that it lies outside the
-- boundaries that came with a calendar window, and that nothing was done.
--
-- docs/redis.md describes values. Those whose length is a multiple of 8, of windows, have no version. Others end with it, a
-- byte; logs and parts have it in their header.
--
-- The files of the script are, in order: fast.lua; windows.lua and logs.lua, the algorithms; once.lua, what is held and what is
-- remembered; decide.lua, the requests.
--
-- Lua counts in doubles, which are exact for integers below 2^53. Everything here stays below that: muldiv splits
-- products that would not, and limits for which that is not enough are rejected before they get here.
local pack, unpack_, call, sub, byte = struct.pack, struct.unpack, redis.call, string.sub, string.byte

local EXACT = 9007199254740992 -- 2^53
local MAX = EXACT - 1 -- where counts saturate
local NARROW = 65535 -- the largest count of a part that fits two bytes
local LIMIT = 65 -- bytes of a packed limit
local MARK, LOGGED = '\1', 1 -- the version of values, and that of a log as a number

-- Logs, and windows of several parts, have a header, which ends with the version. A log has 4 bytes per unit if the window is
-- at most an hour, otherwise 6. A part has 2 bytes, or 8 if that is not enough for one of them: then it has another version. After
-- the header of parts comes a byte with the place of the oldest count that may not be 0.
local HEADER = 17
local COUNTS = 18 -- bytes of parts before their counts
local HOUR = 3600000000
local NARROW_FORM, WIDE_FORM, HELD_FORM = 2, 3, 16 -- the last one: before all others come units that are held
local MOST_LOGGED = 100 -- the most units of a log if no algorithm is named

local now, grace, path = unpack_('<ddB', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- muldiv returns floor(a*b/c) and the remainder, for b <= c < 2^48. It multiplies digit by digit, highest first, with
-- digits small enough that no step leaves the exact range.
local function muldiv(a, b, c)
  local floor, product = math.floor, a * b
  if product < EXACT then
    local quotient = floor(product / c)
    return quotient, product - quotient * c
  end
  local base, digit = 1, 2 * c
  while digit * 2 <= EXACT do
    base, digit = base * 2, digit * 2
  end
  local place = 1
  while place * base <= a do
    place = place * base
  end
  local quotient, rest = 0, 0
  while place >= 1 do
    local d = floor(a / place)
    a = a - d * place
    local x = rest * base + d * b
    local q = floor(x / c)
    quotient, rest = quotient * base + q, x - q * c
    place = place / base
  end
  return quotient, rest
end

-- Fast paths ---------------------------------------------------------------------------------------------------------

-- A fast path decides requests of one charge each, all over limits of one kind: Take, TakeUpTo, whose cost is negative
-- here, and GiveBack from a known time; for logs only Take. It is the rule of the other files for the common case, written
-- out: a function or a table per charge would take longer than deciding. All keys are read together, and each that
-- changes is written once. Uncommon cases (values of another version, a clock that went back, large numbers), and all
-- charges after them, are left to decide.lua.
--
-- Its reply has the verdict on each charge, and each key's value before it: Go decides again by the rule, and compares.
-- For a log, and if no algorithm is named, the reply has the number of units that counted instead, because sending all of them
-- would take longer than searching them; and where Go needs them, when the newest unit was charged, and the one that must expire
-- first: two times, or how many parts ago.
local list, decided, charges = ARGV[2], 0, #KEYS -- charges is the number of charges for a fast path
local reply = '' -- the reply of a fast path
local unfit = 0 -- the key at which a fast path ended
if path > 0 then
  local WINDOW, PARTS, BUCKET, LOG, DEFAULT = 1, 2, 3, 4, 5 -- the fast paths
  local keys, limits = KEYS, ARGV[1]
  local alone = charges == 1 and not list -- no tables for one charge
  local values = not alone and call('MGET', unpack(keys))
  local flags, extra, seen = not alone and {}, nil, 0 -- seen is the number of keys with a decided charge
  local limit, which, more, cost = -1, 0, 0
  local returns = 0 -- the number of refunds so far
  local overlap, first, refused, starts, quota, window, part, parts, burst, cell
  local width, format, two, top -- of a log
  local count = charges
  if list then
    charges = #list / 11
  end
  for k = 1, count do
    local key, value = keys[k]
    if alone then
      value = call('GET', key)
    else
      value = values[k]
    end
    local absent = value and 0 or 4
    local changed = false
    local kind = path -- how the units are kept
    if path == DEFAULT then
      kind = value and byte(value, HEADER) ~= LOGGED and PARTS or LOG
    end
    local start, ended -- of the value
    local current, other -- windows: the count of the current part, and of the previous one or of all
    local begin, shift -- windows: where the current part begins now, and how many parts that is after start
    local recent, oldest -- parts: the value's newest count, and the place in it of the oldest one that may not be 0, or -1
    local owed, as_of, till -- bucket: what is missing in 1/window of a unit, as of when, and when the state ends
    local base, kept, units, lived, live, added, stamp, newest, capacity -- log: lived, live and added are the units that
    -- counted, those of them that were not overwritten, and the new ones
    local patched = false -- windows: more than the count of the current part has changed
    local ends -- when the new state ends, rounded up where it is kept longer
    repeat
      local from -- when the refunded units were charged
      if list then
        more, which, cost = unpack_('<BHd', list, 11 * decided + 1)
        if more > 1 then
          from, more, returns = unpack_('<d', ARGV[3], 8 * returns + 1), more - 2, returns + 1
        end
      end
      if which ~= limit then
        local own
        limit = which
        overlap, first, refused, starts, quota, window, own, parts, part, burst = unpack_('<BBBBdddddd', limits, LIMIT * which + 23)
        cost = list and cost or own
        cell = (window - window % 8) / 8
        if path >= LOG then
          width, format, two, top = 4, '<I4', '<I4I4', 4294967296
          if window > HOUR then
            width, format, two, top = 6, '<I6', '<I6I6', 281474976710656
          end
        end
      end
      local allowed, held -- a refund is allowed if it returns anything
      local amount = cost -- the units to take; may be less than the cost for a TakeUpTo
      local note = absent -- 4 means that there is no value

      if kind <= PARTS then
        local used, fading, covered, length -- what counts, and a count of which covered/length counts
        if kind == WINDOW then
          if not begin then
            current, other = 0, 0
            if value then
              if #value ~= 8 + 8 * parts then
                unfit = k
                break
              end
              if parts == 2 then
                start, current, other = unpack_('<ddd', value)
              else
                start, current = unpack_('<dd', value)
              end
              local since = now - start
              if since < 0 then
                unfit = k
                break
              elseif since < window then
                begin = start
              elseif parts == 2 and since < 2 * window then
                begin, current, other = start + window, 0, current
              else
                current, other = 0, 0
              end
            end
            begin = begin or first == 1 and now or now - now % window
          end
          used, fading, length = current, other, window
        else
          if not begin then
            current, other, shift, oldest = 0, 0, parts, -1
            if value then
              if #value ~= COUNTS + 2 * parts then
                unfit = k
                break
              end
              local all, form, place
              start, all, form, place, recent = unpack_('<ddBBH', value)
              local since = now - start
              if since < 0 or form ~= NARROW_FORM then
                unfit = k
                break
              elseif since < part then
                begin, current, other, shift, oldest = start, recent, all, 0, place
              else
                local passed = (since - since % part) / part
                if passed < parts then
                  begin, other, shift, oldest = start + passed * part, all, passed, place
                  if place >= parts - passed then
                    for i = parts - passed, place do
                      other = other - unpack_('<H', value, COUNTS + 1 + 2 * i)
                    end
                    oldest = parts - passed - 1
                  end
                end
              end
            end
            begin = begin or first == 1 and now or now - now % part
          end
          used, fading, length = other, 0, part
          if overlap ~= 2 and shift < parts then
            fading = unpack_('<H', value, COUNTS - 1 + 2 * (parts - shift))
            used = used - fading
          end
        end
        if fading > 0 then
          covered = begin + length - now
          if covered == length or overlap == 2 then
            used = used + fading
          else
            local rest, quotient = fading * covered
            if rest < EXACT then
              quotient, rest = rest, rest % length
              quotient = (quotient - rest) / length
            else
              quotient, rest = muldiv(fading, covered, length)
            end
            used = used + quotient
            if overlap == 0 and rest > 0 then
              used = used + 1
            end
          end
        end
        if cost < 0 then
          amount = quota - used
          amount = amount < 1 and 1 or amount < -cost and amount or -cost
        end
        allowed = not from and used + amount <= quota
        held = used
        if from then
          local ago = 0 -- how many parts
          if from < begin then
            ago = begin - from - 1
            ago = (ago - ago % length) / length + 1
          end
          local there, place = current -- what was charged in that part
          if path == DEFAULT and from <= now - window then
            there = 0 -- it may not have been moved when the log became parts
          elseif ago > 0 and kind == WINDOW then
            there = ago < parts and other or 0
          elseif ago > 0 then
            place = COUNTS + 1 + 2 * (ago - shift)
            there = ago >= shift and ago < parts and unpack_('<H', value, place) or 0
          end
          amount = cost < there and cost or there
          if there > 0 then
            allowed, changed, patched = true, true, patched or ago > 0
            if ago == 0 then
              current = current - amount
            elseif kind == PARTS then
              value = sub(value, 1, place - 1) .. pack('<H', there - amount) .. sub(value, place + 2)
              if ago == shift then
                recent = there - amount
              end
            end
            if ago > 0 or kind == PARTS then
              other = other - amount
            end
          end
        elseif amount > 0 and (allowed or refused == 1 and amount <= quota) then
          if kind == PARTS and current + amount > NARROW then
            unfit = k
            break
          end
          changed = true
          if path == DEFAULT and other == 0 and starts == 0 and amount <= MOST_LOGGED then -- a log again
            kind, base, units, lived, live, added, stamp, capacity = LOG, nil, 0, 0, 0, amount, 0, MOST_LOGGED
          else
            current = current + amount
            if kind == PARTS then
              other = other + amount
            elseif current > MAX then
              current = MAX
            end
          end
        end

      elseif kind == BUCKET then
        if not owed then
          owed, as_of, till = 0, now, 0
          if value then
            if #value ~= 33 or sub(value, -1) ~= MARK then
              unfit = k
              break
            end
            local missing, rest
            as_of, missing, rest, till = unpack_('<dddd', value)
            owed, ended = missing * window + rest, till
          end
        end
        if as_of > now or owed >= EXACT then
          unfit = k
          break
        end
        local debt, last = owed, till
        if as_of < now then
          debt = now < till and debt - (now - as_of) * quota or 0
        end
        if debt <= 0 then
          debt, last = 0, 0
        end
        local empty = burst * window
        if cost < 0 then
          amount = empty - debt
          amount = (amount - amount % window) / window
          amount = amount < 1 and 1 or amount < -cost and amount or -cost
        end
        local after = debt + amount * window
        allowed = not from and after <= empty
        if from then -- as far as it has not been refilled since
          local back = cost * window
          if from < now then
            back = back - (now - from) * quota
          end
          if back > 0 and debt > 0 then
            allowed, changed, owed = true, true, owed - (back < debt and back or debt)
          end
        elseif amount > 0 and (allowed or refused == 1 and amount <= burst and debt < empty) then
          changed, as_of, owed = true, now, allowed and after or empty
          local rest = owed % quota
          local full = (owed - rest) / quota
          if rest > 0 then
            full = full + 1
          end
          full = now + (full > window and full or window)
          till = full > last and full or last
        end

      else
        if not added then
          units, live, added, stamp = 0, 0, 0, 0
          if value then
            if sub(value, HEADER, HEADER) ~= MARK then
              unfit = k
              break
            end
            base, kept = unpack_('<dd', value)
            units, newest, stamp = (#value - HEADER) / width, unpack_(format, value, #value - width + 1), now - base
            if stamp < newest then
              unfit = k
              break
            end
            -- The first unit less than a window old is searched for between low and high, usually where a steady flow
            -- would have it.
            local from, low = stamp - window, 0
            if units > kept then
              low = units - kept
            end
            local a, b, high = unpack_(format, value, HEADER + 1 + width * low), newest, units - 1
            if b > from then
              if a > from then
                high = low
              end
              local tries = 0
              while high - low > 1 do
                local x = (high - low) / 2
                if tries < 3 then
                  x = (high - low) * (from - a) / (b - a)
                  tries = tries + 1
                end
                x = low + (x - x % 1)
                local t, u = unpack_(two, value, HEADER + 1 + width * x) -- of this one and the next
                if t > from then
                  high, b = x, t
                elseif u > from then
                  low, high = x, x + 1
                else
                  low, a = x + 1, u
                end
              end
              live = units - high
            end
          end
          lived = live
        end
        if from then
          unfit = k
          break
        end
        held = live + added -- what counts
        if cost < 0 then
          amount = quota - held
          amount = amount < 1 and 1 or amount < -cost and amount or -cost
        end
        allowed = held + amount <= quota
        if amount > 0 and (allowed or refused == 1 and amount <= quota) then
          local after, most = held + amount, path == LOG and quota or MOST_LOGGED
          if path == DEFAULT and (starts == 1 or after > most) then
            if held > 0 or amount > NARROW then -- decide.lua turns logs into parts
              unfit = k
              break
            end
            kind, begin, shift, current, other, oldest = PARTS, now - now % part, parts, amount, amount, -1
          elseif stamp >= top - cell then -- the units need another base
            unfit = k
            break
          else
            added = added + amount
            capacity = held > most and held or most
            if after > capacity then -- overwrite the oldest
              live = live - (after - capacity)
              if live < 0 then
                live, added = 0, capacity
              end
            end
          end
          changed = true
        end
      end

      local newestAgo, blockingAgo = 0, 0 -- in which parts two units were charged, counted back from the current one
      if path >= LOG then
        local after = kind == LOG and live + added or other
        if from then
          held = after
        end
        if not allowed or amount == 0 or from or after >= quota then
          -- the newest unit, and the one that must expire first
          local excess, times = after - (quota - ((allowed or from) and 1 or amount))
          if kind == LOG then
            local latest, blocking = 0, now - window
            if after > 0 then
              latest = added > 0 and now or base + newest
            end
            if excess > 0 and excess <= after then
              local place = excess - after + added -- less than 1 if it is one of the value's own
              if place > 0 then
                blocking = now
              else
                blocking = base + unpack_(format, value, #value + width * (place - 1) + 1)
              end
            end
            times = pack('<dd', latest, blocking)
          elseif after > 0 then
            if current == 0 then -- only older ones count, which are in the value
              if shift == 0 or recent == 0 then
                newestAgo = string.find(value, '[^%z]', COUNTS + 1 + (shift == 0 and 2 or 0)) - COUNTS - 1
                newestAgo = (newestAgo - newestAgo % 2) / 2
              end
              newestAgo = newestAgo + shift
            end
            if excess > 0 and excess <= other - current then
              local ago, sum = oldest + 1, 0
              repeat
                ago = ago - 1
                sum = sum + unpack_('<H', value, COUNTS + 1 + 2 * ago)
              until sum >= excess
              blockingAgo = ago + shift
            end
          end
          note = 8 -- the two follow
          if from then
            times = pack('<d', amount)
          end
          if times and alone then
            extra = times
          elseif times then
            extra = extra or {}
            extra[#extra + 1] = times
          end
        else
          note = 0
        end
        if kind == PARTS then
          note = note + 2
        end
      end

      if allowed then
        note = note + 1
      end
      decided = decided + 1
      seen = k
      if alone then
        reply = path >= LOG and pack('<dHBI3BB', now, 1, note, held, newestAgo, blockingAgo) or pack('<dHB', now, 1, note)
      elseif path >= LOG then
        local at, low = 6 * decided, held % 256
        local high = (held - low) / 256
        flags[at - 5], flags[at - 4], flags[at - 3], flags[at - 2] = note, low, high % 256, (high - high % 256) / 256
        flags[at - 1], flags[at] = newestAgo, blockingAgo
      else
        flags[decided] = note
      end
    until more == 0

    if changed then
      local whole -- the new value, if it is written as a whole
      if kind == WINDOW then
        if begin == start then
          call('SETRANGE', key, '8', patched and pack('<dd', current, other) or pack('<d', current))
        else
          whole = parts == 2 and pack('<ddd', begin, current, other) or pack('<dd', begin, current)
          ends = begin + parts * window
        end
      elseif kind == PARTS then
        if begin == start then
          local counts = pack('<dBBH', other, NARROW_FORM, oldest, current)
          call('SETRANGE', key, '8', patched and counts .. sub(value, COUNTS + 3) or counts)
        else
          local zeros = shift < parts and shift or parts
          whole = pack('<ddBBH', begin, other, NARROW_FORM, oldest < 0 and 0 or oldest + shift, current) .. string.rep('\0\0', zeros - 1)
          if shift < parts then
            whole = whole .. sub(value, COUNTS + 1, COUNTS + 2 * (parts - shift))
          end
          ends = begin + parts * part
          ends = ends - ends % cell + cell
          if start then
            ended = start + parts * part
            ended = ended - ended % cell + cell
          end
          if ended == ends then
            call('SETRANGE', key, '0', whole)
            whole = nil
          end
        end
      elseif kind == BUCKET and owed == 0 then
        call('DEL', key) -- a full bucket is as if it had never been used
      elseif kind == BUCKET then
        local rest = owed % window
        ends = till - till % cell + cell
        whole = pack('<dddd', as_of, (owed - rest) / window, rest, till)
        if ended and ended - ended % cell + cell == ends then
          call('SETRANGE', key, '0', whole)
          whole = nil
        else
          whole = whole .. MARK
        end
      else
        ends = now + window
        ends = ends - ends % cell + cell
        if base then
          ended = base + newest + window
          ended = ended - ended % cell + cell
        else
          base = now - now % 134217728 - window
          stamp = now - base
        end
        local new = pack(format, stamp)
        if added > 1 then
          new = string.rep(new, added)
        end
        local known = lived + added -- how many units the value would have if they were appended
        if known > (kept or 0) then
          known = kept
        end
        if known ~= live + added or ended ~= ends or units + added > capacity + capacity / 4 + 8 or type(redis.pcall('APPEND', key, new)) == 'table' then
          whole = pack('<dd', base, capacity) .. MARK
          if live > 0 then
            whole = whole .. sub(value, -width * live)
          end
          whole = whole .. new
        end
      end
      if whole and grace < 0 then
        call('SET', key, whole)
      elseif whole then
        call('SET', key, whole, 'PX', math.ceil((ends - now) / 1000) + grace)
      end
    end
    if unfit == 0 and alone then
      if path >= LOG then
        value = extra
      end
      return value and reply .. value or reply
    end
    if not value and values then
      values[k] = ''
    end
    if unfit > 0 then
      break
    end
  end
  reply = string.char(unpack(flags or {}))
  local over = decided == charges
  if over then
    reply = pack('<dH', now, decided) .. reply
  end
  -- Everything is concatenated in one step: Redis reads each byte of a string made here.
  if values and path < LOG then
    values[0] = reply
    reply = table.concat(values, '', 0, seen)
  elseif extra then
    reply = reply .. table.concat(extra)
  end
  if over then
    return reply
  end
end
