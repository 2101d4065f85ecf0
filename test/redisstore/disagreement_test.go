package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// invertingConn is a connection that inverts the script's first verdict.
type invertingConn struct{ client rueidis.Client }

func (c invertingConn) Cluster() bool { return false }

func (c invertingConn) Run(ctx context.Context, command, script string, calls []redisstore.Call) {
	const verdict = 10 // after the time and the number of decided charges
	for i := range calls {
		sent := c.client.B().Arbitrary(command, script, strconv.Itoa(len(calls[i].Keys))).Keys(calls[i].Keys...).Args(calls[i].Args...).Build()
		reply, err := c.client.Do(ctx, sent).AsBytes()
		if err == nil {
			reply[verdict] ^= 1
		}
		calls[i].Reply, calls[i].Err = string(reply), err
	}
}

// If a fast path decides differently from the rule on the same state, the request gets an error. Other requests of the same
// call are decided.
func TestDisagreementWithTheRuleIsAnError(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	honest := newStore(t, client, redisstore.Options{})
	s := kit.Must(redisstore.NewWithConn(invertingConn{client}, redisstore.Options{}))(t)
	for name, l := range fastKinds() {
		limit := bindRule(t, "disagree", name, l)
		for _, full := range []bool{false, true} { // the verdict is an admission, or a refusal
			key := strconv.FormatBool(full)
			if full {
				applyRequest(t, honest, request(rule.Take, limit, key, 0, limit.Rule().Capacity()))
			}
			batch := []store.Request{request(rule.Take, limit, key, 0, 1), request(rule.Take, limit, "other-"+key, 0, 1)}
			for _, some := range [][]store.Request{batch, batch[:1]} {
				err := s.Apply(context.Background(), some)
				if err == nil || !strings.Contains(err.Error(), "disagree") {
					t.Errorf("%s, full %v: got error %v", name, full, err)
				}
			}
			if batch[1].Err != nil || !batch[1].Answers[0].Allowed {
				t.Errorf("%s, full %v: another request got %+v, %v", name, full, batch[1].Answers[0], batch[1].Err)
			}
		}
	}
}
