package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// tryProducts is a script that calls the functions of the store's script for products, which must be exact.
const tryProducts = `
local replies = {}
for i = 1, #ARGV do
  local a, b, c = struct.unpack('<ddd', ARGV[i])
  if KEYS[1] == 'any' then
    replies[i] = struct.pack('<dd', mulDivAny(a, b, c))
  else
    replies[i] = struct.pack('<dd', muldiv(a, b, c))
  end
end
return table.concat(replies)`

type product struct{ a, b, c int64 }

func TestProductsAreExact(t *testing.T) {
	t.Parallel()
	before := "local EXACT, floor = 9007199254740992, math.floor\n" + functionOf(t, "fast.lua", "muldiv") + functionOf(t, "windows.lua", "mulDivAny")
	client := redistest.Server(t).Client(t)
	checkLargestBucket(t, newStore(t, client, redisstore.Options{}))
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		checkProducts(t, client, before, "plain", products(random, false))
		checkProducts(t, client, before, "any", products(random, true))
	}
}

// functionOf returns the text of a function of the script.
func functionOf(t *testing.T, file, name string) string {
	t.Helper()
	script, err := os.ReadFile("../../redisstore/" + file)
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(script), "\nlocal function "+name+"(")
	if !ok {
		t.Fatalf("%s has no function %s", file, name)
	}
	text, _, _ = strings.Cut(text, "\nend\n")
	return "local function " + name + "(" + text + "\nend\n"
}

// maxBucketQuota is the largest quota of a token bucket that the store accepts.
const maxBucketQuota = 1<<48 - 1

// checkLargestBucket checks that the products are exact up to the store's limits.
func checkLargestBucket(t *testing.T, s *redisstore.Store) {
	t.Helper()
	limit := slidegate.Limit{Quota: maxBucketQuota, Window: time.Hour, Algorithm: slidegate.TokenBucket}
	if err := s.Check(bind(t, "", limit)); err != nil {
		t.Error(err)
	}
	limit.Quota++
	if err := s.Check(bind(t, "", limit)); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a bucket of %d: %v", limit.Quota, err)
	}
}

// products draws a*b/c with a up to 2^53-1 and b up to c up to the longest window or the largest quota of a bucket; or
// any b for which the quotient stays in range.
func products(random *rand.Rand, anyB bool) []product {
	upTo := func(most int64) int64 { // of any length, and often the maximum or a power of two
		n := random.Int64N(int64(1)<<random.IntN(54)) & random.Int64()
		switch random.IntN(6) {
		case 0:
			n = most - random.Int64N(3)
		case 1:
			n = int64(1)<<random.IntN(54) - random.Int64N(2)
		case 2:
			n = random.Int64N(most) + 1
		}
		return min(max(n, 1), most)
	}
	var all []product
	for len(all) < 500 {
		p := product{a: upTo(rule.MaxQuota), c: upTo(maxBucketQuota)}
		if p.b = min(upTo(p.c), p.c); anyB {
			p.b = upTo(rule.MaxQuota)
		}
		if q, _ := p.exact(); q.Cmp(big.NewInt(rule.MaxQuota)) <= 0 {
			all = append(all, p)
		}
	}
	return all
}

func (p product) exact() (quotient, rest *big.Int) {
	x := new(big.Int).Mul(big.NewInt(p.a), big.NewInt(p.b))
	return x.QuoRem(x, big.NewInt(p.c), new(big.Int))
}

func checkProducts(t *testing.T, client rueidis.Client, functions, which string, all []product) {
	t.Helper()
	args := make([]string, len(all))
	for i, p := range all {
		var packed []byte
		for _, n := range []int64{p.a, p.b, p.c} {
			packed = binary.LittleEndian.AppendUint64(packed, math.Float64bits(float64(n)))
		}
		args[i] = string(packed)
	}
	command := client.B().Eval().Script(functions + tryProducts).Numkeys(1).Key(which).Arg(args...).Build()
	reply, err := client.Do(context.Background(), command).AsBytes()
	if err != nil {
		t.Fatal(err)
	}
	number := func(i int) int64 { return int64(math.Float64frombits(binary.LittleEndian.Uint64(reply[8*i:]))) }
	for i, p := range all {
		quotient, rest := p.exact()
		if number(2*i) != quotient.Int64() || number(2*i+1) != rest.Int64() {
			t.Fatalf("%s: %d*%d/%d = %d rest %d, want %d rest %d",
				which, p.a, p.b, p.c, quotient, rest, number(2*i), number(2*i+1))
		}
	}
}

// A debt from the time of a larger limit may need more than 53 bits where the smaller one does not. It stays exact when the
// smaller one gives back, or is refused.
func TestLargeDebtUnderASmallLimit(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	const window = 3_600_000_001 // odd, so that no product ends with zero bits
	large := bindRule(t, "debts", "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: 20_000_003, Window: window})
	small := bindRule(t, "debts", "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: 7, Window: window, CountRefused: true})
	var state rule.State
	for i, step := range []struct {
		op    rule.Op
		limit *store.Limit
		cost  int64
	}{{rule.Take, large, 19_999_999}, {rule.GiveBack, small, 5}, {rule.Take, small, 1}, {rule.GiveBack, small, 7}, {rule.Take, large, 3}} {
		r := request(step.op, step.limit, "key", 0, step.cost)
		r.Charges[0].At = now
		items, want := []rule.Item{{Limit: step.limit.Rule(), State: &state, Cost: step.cost, At: now}}, make([]rule.Answer, 1)
		now += 1_000_003
		rule.Decide(step.op, items, now, want)
		if got := applyRequest(t, s, r); got != want[0] {
			t.Errorf("step %d: got %+v, want %+v", i, got, want[0])
		}
		value := text(t, client, "GET", nameOf(large, "key"))
		for j, n := range []int64{int64(state.Start), state.Missing, state.Rest, int64(state.Until)} {
			if got := int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(value[8*j:])))); got != n {
				t.Errorf("step %d: got %d as number %d of the value, want %d", i, got, j, n)
			}
		}
	}
}
