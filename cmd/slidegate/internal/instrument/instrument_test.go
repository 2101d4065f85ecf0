package instrument_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
)

type counts struct {
	reads, trips int64
	seconds      float64
}

var table = []instrument.Row[*counts]{
	{Name: "slidegate.trips", Unit: "{trip}", Help: "Trips.", Value: func(c *counts) int64 { return c.trips }},
	{Name: "slidegate.now", Kind: instrument.Gauge, Help: "Trips.", Value: func(c *counts) int64 { return c.trips }},
	{Name: "slidegate.reads", Unit: "By", Kind: instrument.Gauge, Help: "Reads.", Value: func(c *counts) int64 { return c.reads }},
	{Name: "slidegate.age", Unit: "s", Kind: instrument.Seconds, Help: "Age.", Each: func(c *counts, report instrument.Report) {
		for _, name := range []string{"a", "b"} {
			report(c.seconds, attribute.String("listener", name))
		}
	}},
}

// collect returns all values, such as "slidegate.trips store=redis 5".
func collect(t *testing.T, reader sdk.Reader) (found []string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	add := func(name string, of attribute.Set, value any) {
		for _, a := range of.ToSlice() {
			name += fmt.Sprintf(" %s=%s", a.Key, a.Value.AsString())
		}
		found = append(found, fmt.Sprint(name, " ", value))
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// A table is read once per collection, counters never decrease, and nothing is reported after unregister.
func TestRegister(t *testing.T) {
	reader := sdk.NewManualReader()
	c := &counts{trips: 5, seconds: 1.5}
	unregister, err := instrument.Register(sdk.NewMeterProvider(sdk.WithReader(reader)), table, func() *counts {
		c.reads++
		return c
	}, attribute.String("store", "redis"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		trips int64
		want  []string
	}{
		{5, []string{"slidegate.age listener=a store=redis 1.5", "slidegate.age listener=b store=redis 1.5", "slidegate.now store=redis 5", "slidegate.reads store=redis 1", "slidegate.trips store=redis 5"}},
		{3, []string{"slidegate.age listener=a store=redis 1.5", "slidegate.age listener=b store=redis 1.5", "slidegate.now store=redis 3", "slidegate.reads store=redis 2", "slidegate.trips store=redis 5"}},
	} {
		c.trips = step.trips
		if got := collect(t, reader); !slices.Equal(got, step.want) {
			t.Errorf("%d trips:\ngot  %q\nwant %q", step.trips, got, step.want)
		}
	}
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, reader); len(got) > 0 {
		t.Errorf("after unregister: got %q, want nothing", got)
	}
}

func TestNames(t *testing.T) {
	want := []string{"slidegate_trips_total", "slidegate_now", "slidegate_reads_bytes", "slidegate_age_seconds"}
	if got := instrument.Names(table); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
