package natskv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/formats"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
)

// What a released version has written to NATS is read, and written the same, in a stream of the same name and under the same subjects; see
// package formats.
func TestReadsReleasedFormats(t *testing.T) {
	t.Parallel()
	const subjects = "$KV.slidegate."
	url := natstest.Start(t)
	engine, js := open(t, url, natskv.Options{Memory: true}), jetStream(t, url)
	stream := kit.Must(js.Stream(t.Context(), "KV_slidegate"))(t)
	formats.Check(t, formats.KeyValue, formats.Entries{
		Names: func(t testing.TB) (names []string) {
			info := kit.Must(stream.Info(t.Context(), jetstream.WithSubjectFilter(subjects+">")))(t)
			for subject := range info.State.Subjects {
				if name := strings.TrimPrefix(subject, subjects); strings.HasPrefix(name, "slidegate-") { // the engine's own have other names
					names = append(names, name)
				}
			}
			return names
		},
		Get: func(t testing.TB, name string) []byte {
			return kit.Must(stream.GetLastMsgForSubject(t.Context(), subjects+name))(t).Data
		},
		Put: func(t testing.TB, name string, value []byte) {
			kit.Must(js.Publish(t.Context(), subjects+name, value, jetstream.WithMsgTTL(time.Hour)))(t)
		},
		Forget: func(t testing.TB) {
			if err := stream.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		New: func(t testing.TB, now func() rule.Micros) store.Store { return newStore(t, engine, now) },
	})
}
