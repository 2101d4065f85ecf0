package gate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
)

// Signer signs what Reserve hands out. A reservation comes back from a client, which could otherwise have written it itself, and give
// back or charge what was never reserved. It must be safe for concurrent use.
type Signer interface {
	// Sign returns a signature of text, without dots.
	Sign(ctx context.Context, text []byte) string
	// Verify reports whether a signature is one of text.
	Verify(ctx context.Context, text []byte, signature string) bool
}

// The ID of a reservation is followed by one of these and a signature. They say which format was signed: earlier is that of
// reservations without a version, which are still settled.
const (
	signedBy      = ".v2."
	signedEarlier = ".v1."
)

// sign appends a signature to the ID of a reservation, unless it is the zero value or nobody signs.
func (g *Gate) sign(ctx context.Context, policy string, r *slidegate.Reservation) {
	if g.opts.Signer != nil && r.ID != "" {
		r.ID += signedBy + g.opts.Signer.Sign(ctx, signedText(policy, *r))
	}
}

// verify refuses a reservation that Reserve did not hand out for the policy, or that was changed since. It takes the signature
// off its ID, and reports whether it is of an earlier format.
func (g *Gate) verify(ctx context.Context, policy string, r *slidegate.Reservation) (earlier bool, err error) {
	if g.opts.Signer == nil {
		return true, nil // it may be
	}
	ctx = context.WithoutCancel(ctx) // settling finishes after the client has gone
	textOf := signedText
	id, signature, signed := strings.Cut(r.ID, signedBy)
	if !signed {
		id, signature, earlier = strings.Cut(r.ID, signedEarlier)
		r.Charges, textOf = earlierCharges(r.Charges), earlierText
	}
	bare := *r
	bare.ID = id
	if id == "" || signature == "" || !g.opts.Signer.Verify(ctx, textOf(policy, bare), signature) {
		return earlier, fmt.Errorf("gate: %w: it was not made by this service for the policy %s, or was changed since; "+
			"send what reserving answered, as it was", slidegate.ErrReservation, policy)
	}
	r.ID = id
	return earlier, nil
}

// earlierCharges returns the charges of a reservation of the earlier format as they were meant: a limit that names no algorithm is
// a sliding window, whatever version the client says that it is of.
func earlierCharges(charges []slidegate.ReservedCharge) []slidegate.ReservedCharge {
	charges = slices.Clone(charges)
	for i := range charges {
		if limit := &charges[i].Limit; limit.Algorithm == slidegate.DefaultAlgorithm {
			limit.Algorithm = slidegate.SlidingWindow
		}
	}
	return charges
}

// signedText is what is signed: the name of the policy and all that is in the reservation.
func signedText(policy string, r slidegate.Reservation) []byte {
	if r.Charges == nil {
		r.Charges = []slidegate.ReservedCharge{} // which not every reader of JSON tells from none
	}
	return signedJSON(signedBy, policy, r)
}

// earlierText is signedText of the earlier format, which has no version and does not name sliding windows.
func earlierText(policy string, r slidegate.Reservation) []byte {
	type earlier struct {
		ID      string                     `json:"id"`
		Group   string                     `json:"group,omitempty"`
		Charges []slidegate.ReservedCharge `json:"charges"`
	}
	charges := append([]slidegate.ReservedCharge{}, r.Charges...)
	for i := range charges {
		if charges[i].Limit.Algorithm == slidegate.SlidingWindow {
			charges[i].Limit.Algorithm = slidegate.DefaultAlgorithm
		}
	}
	return signedJSON(signedEarlier, policy, earlier{r.ID, r.Group, charges})
}

func signedJSON(format, policy string, r any) []byte {
	content, err := json.Marshal(r)
	if err != nil {
		panic(err) // texts, bytes and numbers
	}
	text := append([]byte(nil), "slidegate reservation"+format...)
	text = binary.AppendUvarint(text, uint64(len(policy)))
	text = append(text, policy...)
	return append(text, content...)
}
