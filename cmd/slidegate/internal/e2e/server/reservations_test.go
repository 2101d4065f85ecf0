package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestReservationsOfInstances checks that instances that share a store settle each other's reservations, even after a restart, and
// reject reservations that none of them made.
func TestReservationsOfInstances(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) string{
		"redis":    func(t *testing.T) string { return "redis://" + redistest.Server(t).Addr() },
		"cluster":  func(t *testing.T) string { return "redis+cluster://" + redistest.Cluster(t)[0].Addr() },
		"postgres": func(t *testing.T) string { return pgtest.Start(t, "fsync = off").URL() },
	} {
		t.Run(name, func(t *testing.T) {
			file := "store: " + strconv.Quote(open(t)) + "\nstore_timeout: 5s\npolicies:\n  default: {limits: [100/1h fixed-window anchor=first]}\n"
			instances := []*servicetest.Service{servicetest.Start(t, file, nil), servicetest.Start(t, file, nil), servicetest.Start(t, file, nil)}
			var made []string
			for _, one := range instances {
				got := one.Send(t, "http", "POST", "/v1/reserve", `{"key":"me","cost":5}`)
				_, reservation, found := strings.Cut(got.Body, `"reservation":`)
				if got.Status != http.StatusOK || !found {
					t.Fatalf("got %d %s, want a reservation", got.Status, got.Body)
				}
				made = append(made, strings.TrimSuffix(strings.TrimSpace(reservation), "}"))
			}
			instances[0].Stop(t)
			instances[0] = servicetest.Start(t, file, nil)
			for i, reservation := range made {
				for j, one := range instances {
					if got := one.Send(t, "http", "POST", "/v1/settle", `{"cost":5,"reservation":`+reservation+`}`); got.Status != http.StatusOK {
						t.Errorf("instance %d, settling a reservation of instance %d: got %d %s, want 200", j, i, got.Status, got.Body)
					}
					forged := strings.Replace(reservation, `"cost":5`, `"cost":50`, 1)
					if got := one.Send(t, "http", "POST", "/v1/cancel", `{"reservation":`+forged+`}`); got.Status != http.StatusBadRequest {
						t.Errorf("instance %d, a reservation that was changed: got %d %s, want 400", j, got.Status, got.Body)
					}
				}
			}
		})
	}
}

// TestKeyIsNotLogged checks that the signing key does not get into the log if Redis cannot store it. The process then uses its own key.
func TestKeyIsNotLogged(t *testing.T) {
	const onlyCounts = "user default on nopass ~slidegate:*:*:* &* +@all" // documents have shorter names
	s := servicetest.Start(t, "store: redis://"+redistest.Server(t, onlyCounts).Addr()+"\nstore_timeout: 5s\npolicies:\n  default: {limits: [100/1h fixed-window anchor=first]}\n", nil)
	got := s.Send(t, "http", "POST", "/v1/reserve", `{"key":"me","cost":5}`)
	_, made, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(got.Body), "}"), `"reservation":`)
	if got := s.Send(t, "http", "POST", "/v1/settle", `{"cost":5,"reservation":`+made+`}`); got.Status != http.StatusOK {
		t.Errorf("got %d %s, want 200", got.Status, got.Body)
	}
	log := s.Log.String()
	if !strings.Contains(log, "--reservation-key-file") || strings.Contains(log, "with args") || strings.Contains(log, `\x`) {
		t.Errorf("logged %s", log)
	}
}
