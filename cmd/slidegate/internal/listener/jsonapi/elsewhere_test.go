package jsonapi

import (
	"strings"
	"testing"
)

// A reservation that another process made while the store did not answer is not settled here, and the response says where it can be.
// What was counted nowhere is settled anywhere.
func TestReservationsOfAnotherProcess(t *testing.T) {
	s := newService(t, Options{})
	s.fail(errBroken)
	made := reservationOf(t, s.post("/v1/reserve", `{"policy":"open","key":"ann"}`).body)
	nowhere := reservationOf(t, s.post("/v1/reserve", `{"policy":"open","key":"ann"}`).body)
	s.fail(nil)
	if !strings.Contains(made, `,"by":1}`) {
		t.Fatalf("got %s, want a reservation that was counted nowhere", made)
	}
	elsewhere := 0
	for _, by := range []string{`,"by":3}`, `,"by":5}`} { // this process has one of these marks at most
		theirs := `{"policy":"open","reservation":` + strings.Replace(made, `,"by":1}`, by, 1) + `}`
		if got := s.post("/v1/cancel", theirs); got.status == 421 && strings.Contains(got.body, "send it to that process") {
			elsewhere++
		}
	}
	if elsewhere == 0 {
		t.Error("reservations of other processes were cancelled here, want 421")
	}
	s.post("/v1/cancel", `{"policy":"open","reservation":`+nowhere+`}`).want(t, 200, settledJSON(false, "1/1h fixed-window", 0))
	beyond := s.post("/v1/cancel", `{"policy":"open","reservation":`+strings.Replace(made, `,"by":1}`, `,"by":1025}`, 1)+`}`)
	if beyond.status != 400 || !strings.Contains(beyond.body, "1024") {
		t.Errorf("a mark that is too large: got %d %s, want 400", beyond.status, beyond.body)
	}
}
