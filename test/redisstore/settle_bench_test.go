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
	"github.com/slidegate/slidegate/test/redistest"
)

// BenchmarkSettle measures what it costs to remember a settlement, compared with a refund, which is not remembered:
// time, bytes to and from the server, calls of the script, and the server's time per call.
func BenchmarkSettle(b *testing.B) {
	client := redistest.Server(b, "appendonly no").Client(b)
	s := newStore(b, client, redisstore.Options{})
	for _, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Quota: 1_000_000, Window: hour}, {Algorithm: rule.TokenBucket, Quota: 1_000_000, Window: hour},
	} {
		limit := bindRule(b, "bench", l.Algorithm.String(), l)
		for _, c := range []struct {
			name string
			make func(i int) store.Request
		}{
			{"give-back", func(int) store.Request { return request(rule.GiveBack, limit, "key", 1, 1) }},
			{"settle", func(i int) store.Request { return settleOf(limit, strconv.Itoa(i/1_000), rule.ID(i+1), 1, 2, 1) }},
			{"repeated", func(int) store.Request { return settleOf(limit, "key", 1, 2, 1, 1) }},
		} {
			b.Run(l.Algorithm.String()+"/"+c.name, func(b *testing.B) {
				applyRequest(b, s, request(rule.Charge, limit, "key", 1, 900_000))
				before := traffic(b, client)
				for i := 0; b.Loop(); i++ {
					if err := s.Apply(context.Background(), []store.Request{c.make(i)}); err != nil {
						b.Fatal(err)
					}
				}
				after := traffic(b, client)
				for i, unit := range []string{"B-in/op", "B-out/op", "calls/op", "server-us/op"} {
					b.ReportMetric(float64(after[i]-before[i])/float64(b.N), unit)
				}
			})
		}
	}
}

// traffic returns how many bytes the server has received and sent, how many calls of scripts it has had, and how many
// microseconds these took.
func traffic(b *testing.B, client rueidis.Client) [4]int64 {
	b.Helper()
	info := text(b, client, "INFO", "everything")
	field := func(name string) int64 {
		_, rest, _ := strings.Cut(info, name)
		n, err := strconv.ParseInt(rest[:strings.IndexAny(rest, ",\r")], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	calls := field("cmdstat_evalsha:calls=")
	return [4]int64{
		field("total_net_input_bytes:"), field("total_net_output_bytes:"), calls, field("cmdstat_evalsha:calls=" + strconv.FormatInt(calls, 10) + ",usec="),
	}
}
