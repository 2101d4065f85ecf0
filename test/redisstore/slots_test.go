package redisstore_test

import (
	"encoding/binary"
	"testing"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/test/redistest"
)

// A slot is found only by its ID, even if the bytes of a slot's time, or the end of an ID and the beginning of a time,
// equal the ID.
func TestSlotsAreFoundByTheirID(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	limit := bindRule(t, "slots", "in-flight", rule.Limit{Algorithm: rule.InFlight, Quota: 5, Window: minute})
	held := rule.ID(0x1122334455667788)
	applyRequest(t, s, request(rule.Take, limit, "key", held, 1))
	applyRequest(t, s, request(rule.Take, limit, "key", held+1, 1))
	value := text(t, client, "GET", nameOf(limit, "key"))
	for at := 1; at <= len(value)-9; at++ {
		id := rule.ID(binary.LittleEndian.Uint64([]byte(value[at : at+8])))
		if id != held+1 && applyRequest(t, s, request(rule.Renew, limit, "key", id, 1)).Allowed {
			t.Errorf("%x is found as held at byte %d", id, at)
		}
	}
	if a := applyRequest(t, s, request(rule.Renew, limit, "key", held, 1)); !a.Allowed || a.Remaining != 3 {
		t.Errorf("the held slot: got %+v, want allowed, Remaining 3", a)
	}
}

// A slot that is not renewed is free after its time to live, a renewed slot stays, and a key without slots is deleted.
func TestSlotsExpire(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	limit := bindRule(t, "slots", "in-flight", rule.Limit{Algorithm: rule.InFlight, Quota: 2, Window: minute})
	for id := range rule.ID(2) {
		applyRequest(t, s, request(rule.Take, limit, "key", id+1, 1))
	}
	for range 10 { // ten times its time to live
		now += minute - 1
		if a := applyRequest(t, s, request(rule.Renew, limit, "key", 1, 1)); !a.Allowed {
			t.Fatalf("a slot that was renewed in time was lost: got %+v, want allowed", a)
		}
	}
	if a := applyRequest(t, s, request(rule.Renew, limit, "key", 2, 1)); a.Allowed || a.Remaining != 1 {
		t.Errorf("a slot that was not renewed: got %+v, want refused, Remaining 1", a)
	}
	for range 2 {
		r := request(rule.GiveBack, limit, "key", 1, 1)
		r.Charges[0].At = now
		if a := applyRequest(t, s, r); a.Remaining != 2 {
			t.Errorf("released: got %+v, want Remaining 2", a)
		}
	}
	if number(t, client, "EXISTS", nameOf(limit, "key")) != 0 {
		t.Error("a key without slots still exists")
	}
}
