package redisstore_test

import (
	"context"
	"encoding/binary"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// otherClock is a connection to a server whose clock differs from this process's: the script receives the time instead of
// reading it.
type otherClock struct {
	client rueidis.Client
	ahead  time.Duration
	sent   int
}

func (c *otherClock) Cluster() bool { return false }

func (c *otherClock) Run(ctx context.Context, command, script string, calls []redisstore.Call) {
	for i := range calls {
		if command == "EVALSHA" { // otherwise it is sent again, to a server that did not know the script
			c.sent++
		}
		now := time.Now().Add(c.ahead).UnixMicro()
		args := append([]string{string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(now)))) + calls[i].Args[0][8:]}, calls[i].Args[1:]...)
		sent := c.client.B().Arbitrary(command, script, strconv.Itoa(len(calls[i].Keys))).Keys(calls[i].Keys...).Args(args...).Build()
		calls[i].Reply, calls[i].Err = c.client.Do(ctx, sent).ToString()
	}
}

// If the server's clock is in another period than this process's, or even far away, the server's clock decides. The first
// request outside the periods that were sent costs one more round trip; later requests do not.
func TestServerClockDecidesCalendarPeriod(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	for name, c := range map[string]struct {
		ahead time.Duration
		sent  []int // per request
	}{
		"together":         {0, []int{1, 1, 1}},
		"a year ahead":     {360 * 24 * time.Hour, []int{1, 1, 1}},
		"a year behind":    {-360 * 24 * time.Hour, []int{1, 1, 1}},
		"three years on":   {3 * 365 * 24 * time.Hour, []int{2, 1, 1}},
		"ten years behind": {-3650 * 24 * time.Hour, []int{2, 1, 1}},
	} {
		conn := &otherClock{client: client, ahead: c.ahead}
		s := kit.Must(redisstore.NewWithConn(conn, redisstore.Options{}))(t)
		limit := bindRule(t, name, "yearly", rule.Limit{Quota: 10, Calendar: rule.Year, Zone: "Europe/Berlin"})
		other := bindRule(t, name, "other", rule.Limit{Algorithm: rule.SlidingLog, Quota: 10, Window: hour})
		for i, want := range c.sent {
			conn.sent = 0
			r := request(rule.Take, limit, "key", 0, 2)
			r.Charges = append(r.Charges, store.Charge{Limit: other, Key: "key", Cost: 2})
			r.Answers = make([]rule.Answer, 2)
			if err := s.Apply(context.Background(), []store.Request{r}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			a := r.Answers[0]
			_, end := limit.Rule().Bounds(rule.Micros(time.Now().Add(c.ahead).UnixMicro()))
			if left := int64(10 - 2*(i+1)); a.Remaining != left || r.Answers[1].Remaining != left || a.At+a.ResetAfter != end {
				t.Errorf("%s, request %d: got %+v, want %d remaining until %d", name, i, r.Answers, left, end)
			}
			if conn.sent != want {
				t.Errorf("%s, request %d: sent %d times, want %d", name, i, conn.sent, want)
			}
		}
	}
}
