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

// Signer signs the reservations that Reserve returns. Without a signature, a client could forge a reservation and
// refund or charge what was never reserved. A Signer must be safe for concurrent use.
type Signer interface {
	// Sign returns a signature of text that contains no dots.
	Sign(ctx context.Context, text []byte) string
	// Verify reports whether signature is a signature of text.
	Verify(ctx context.Context, text []byte, signature string) bool
}

// The ID of a reservation is followed by one of these marks and a signature. A mark identifies the format that was
// signed; earlier is the format of reservations without a version, which can still be settled.
const (
	signatureMark = ".v2."
	earlierMark   = ".v1."
)

// sign appends a signature to the ID of a reservation, unless the reservation is the zero value or there is no Signer.
func (g *Gate) sign(ctx context.Context, policy string, r *slidegate.Reservation) {
	if g.opts.Signer != nil && r.ID != "" {
		r.ID += signatureMark + g.opts.Signer.Sign(ctx, signedText(policy, *r))
	}
}

// verify rejects a reservation that Reserve did not return for the policy, or that was modified since. It removes the
// signature from the ID, and reports whether the reservation has the earlier format.
func (g *Gate) verify(ctx context.Context, policy string, r *slidegate.Reservation) (earlier bool, err error) {
	if g.opts.Signer == nil {
		return true, nil // without a signature, it may have the earlier format
	}
	ctx = context.WithoutCancel(ctx) // settling continues after the client has disconnected
	textOf := signedText
	id, signature, signed := strings.Cut(r.ID, signatureMark)
	if !signed {
		id, signature, earlier = strings.Cut(r.ID, earlierMark)
		r.Charges, textOf = earlierCharges(r.Charges), earlierText
	}
	unsigned := *r
	unsigned.ID = id
	if id == "" || signature == "" || !g.opts.Signer.Verify(ctx, textOf(policy, unsigned), signature) {
		return earlier, fmt.Errorf("%w: it was not made by this service for policy %s, or was modified since; "+
			"send the reservation unchanged", slidegate.ErrReservation, policy)
	}
	r.ID = id
	return earlier, nil
}

// earlierCharges returns the charges of a reservation of the earlier format with their algorithms: a limit that names
// no algorithm is a sliding window, whatever version the client claims.
func earlierCharges(charges []slidegate.ReservedCharge) []slidegate.ReservedCharge {
	charges = slices.Clone(charges)
	for i := range charges {
		if limit := &charges[i].Limit; limit.Algorithm == slidegate.DefaultAlgorithm {
			limit.Algorithm = slidegate.SlidingWindow
		}
	}
	return charges
}

// signedText returns the text to sign: the name of the policy and the whole reservation.
func signedText(policy string, r slidegate.Reservation) []byte {
	if r.Charges == nil {
		r.Charges = []slidegate.ReservedCharge{} // some JSON readers do not distinguish it from null
	}
	return signedJSON(signatureMark, policy, r)
}

// earlierText is signedText for the earlier format, which has no version and does not name sliding windows.
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
	return signedJSON(earlierMark, policy, earlier{r.ID, r.Group, charges})
}

func signedJSON(format, policy string, r any) []byte {
	content, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot fail for strings, bytes and numbers
	}
	text := append([]byte(nil), "slidegate reservation"+format...)
	text = binary.AppendUvarint(text, uint64(len(policy)))
	text = append(text, policy...)
	return append(text, content...)
}
