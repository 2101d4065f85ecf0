package resp_test

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// measure reads all metrics, written "name{value of the attribute}".
func measure(t *testing.T, reader *metric.ManualReader) map[string]int64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, scope := range got.ScopeMetrics {
		for _, one := range scope.Metrics {
			var points []metricdata.DataPoint[int64]
			switch data := one.Data.(type) {
			case metricdata.Sum[int64]:
				points = data.DataPoints
			case metricdata.Gauge[int64]:
				points = data.DataPoints
			}
			for _, point := range points {
				name := strings.TrimPrefix(one.Name, "slidegate.resp.")
				for _, attribute := range point.Attributes.ToSlice() {
					name += "{" + attribute.Value.AsString() + "}"
				}
				sums[name] = point.Value
			}
		}
	}
	return sums
}

func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	w := open(t, resp.Options{Tokens: []string{"token"}, MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	c := w.dial(t)
	c.exchange("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.")
	c.exchange("AUTH token", "+OK")
	c.send(strings.Repeat(frame("SG.ALLOW", "default", "secret"), 2) + frame("PING") + frame("SG.ALLOW", "default", "secret") + frame("NOSUCH"))
	for !strings.HasPrefix(c.line(), "-ERR unknown") {
	}
	broken := w.dial(t)
	broken.send("*x\r\n")
	broken.expect("-ERR Protocol error: invalid multibulk length\r\n")
	broken.expectClosed()
	want := map[string]int64{"commands{auth}": 2, "commands{sg.allow}": 3, "commands{ping}": 1,
		"auth_failures": 1, "disconnects{protocol}": 1, "disconnects{client}": 0, "disconnects{idle}": 0, "disconnects{drained}": 0,
		"disconnects{slow_read}": 0, "disconnects{slow_write}": 0, "disconnects{unauthenticated}": 0}
	var got map[string]int64
	testkit.Eventually(t, "the disconnect to be counted", func() bool {
		got = measure(t, reader)
		return got["disconnects{protocol}"] == 1
	})
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: got %d, want %d", name, got[name], n)
		}
	}
	for name, n := range got { // unused commands are reported too
		if _, known := want[name]; !known && (n != 0 || !strings.HasPrefix(name, "commands{")) {
			t.Errorf("got %s %d, want none", name, n)
		}
	}
	if _, there := got["commands{sg.peek}"]; !there {
		t.Error("an unused command has no series")
	}
	if ok, failed := w.server.Replies(); ok != 5 || failed != 3 { // an invalid token, an unknown command, and input that is not a command
		t.Errorf("got %d replies and %d errors, want 5 and 3", ok, failed)
	}
}
