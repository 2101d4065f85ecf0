package gate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
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

// signatureMark separates the ID of a reservation from its signature, and identifies the format that was signed.
const signatureMark = ".v1."

// sign appends a signature to the ID of a reservation, unless the reservation is the zero value or there is no Signer.
func (g *Gate) sign(ctx context.Context, policy string, r *slidegate.Reservation) {
	if g.opts.Signer != nil && r.ID != "" {
		r.ID += signatureMark + g.opts.Signer.Sign(ctx, signedText(policy, *r))
	}
}

// verify rejects a reservation that Reserve did not return for the policy, or that was modified since. It removes the
// signature from the ID.
func (g *Gate) verify(ctx context.Context, policy string, r *slidegate.Reservation) error {
	if g.opts.Signer == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // settling continues after the client has disconnected
	unsigned := *r
	id, signature, _ := strings.Cut(r.ID, signatureMark)
	unsigned.ID = id
	if id == "" || signature == "" || !g.opts.Signer.Verify(ctx, signedText(policy, unsigned), signature) {
		return fmt.Errorf("%w: it was not made by this service for policy %s, or was modified since; "+
			"send the reservation unchanged", slidegate.ErrReservation, policy)
	}
	r.ID = id
	return nil
}

// signedText returns the text to sign: the name of the policy and the whole reservation.
func signedText(policy string, r slidegate.Reservation) []byte {
	if r.Charges == nil {
		r.Charges = []slidegate.ReservedCharge{} // some JSON readers do not distinguish it from null
	}
	content, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot fail for strings, bytes and numbers
	}
	text := append([]byte(nil), "slidegate reservation"+signatureMark...)
	text = binary.AppendUvarint(text, uint64(len(policy)))
	text = append(text, policy...)
	return append(text, content...)
}
