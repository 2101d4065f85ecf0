package natskv

import (
	"errors"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/store"
)

var (
	down    = []error{store.ErrDown}
	undone  = []error{store.ErrDown, store.ErrUndone}
	busy    = []error{store.ErrBusy, store.ErrUndone}
	refused = []error{store.ErrRefused, store.ErrDown, store.ErrUndone}
)

// clientMarks has what errors of the client mean.
var clientMarks = []struct {
	err   error
	marks []error
}{
	{errOffline, undone}, {nats.ErrNoResponders, undone}, {jetstream.ErrNoStreamResponse, undone}, {nats.ErrNoServers, undone},
	{nats.ErrConnectionReconnecting, undone}, {nats.ErrReconnectBufExceeded, undone}, {nats.ErrSecureConnRequired, undone},
	{nats.ErrSecureConnWanted, undone}, {nats.ErrTLS, undone}, {nats.ErrNoInfoReceived, undone},
	{nats.ErrMaxConnectionsExceeded, busy}, {nats.ErrMaxAccountConnectionsExceeded, busy},
	{nats.ErrAuthorization, refused}, {nats.ErrAuthExpired, refused}, {nats.ErrAuthRevoked, refused}, {nats.ErrAccountAuthExpired, refused},
	{nats.ErrPermissionViolation, refused},
	// A request may have been sent before the connection ended.
	{nats.ErrConnectionClosed, down}, {nats.ErrConnectionDraining, down}, {nats.ErrDisconnected, down}, {nats.ErrStaleConnection, down},
	{jetstream.ErrConnectionClosed, down}, {jetstream.ErrServerShutdown, down},
}

// Codes of errors that JetStream returns when it has no space.
const (
	codeAccountFull = jetstream.ErrorCode(10002)
	codeServerFull  = jetstream.ErrorCode(10023)
	codeMemoryFull  = jetstream.ErrorCode(10028)
	codeStorageFull = jetstream.ErrorCode(10047)
	codeStoreFailed = jetstream.ErrorCode(10077) // the bucket is full, or the disk
)

// fault returns an error as one that wraps what it means for the store, and, unless the request may have been carried out in spite
// of it, what it means for the request. JetStream's own errors are answers: it has rejected the request as a whole.
func fault(err error, certain bool) error {
	marks := marksOf(err)
	if marks == nil {
		return store.NetworkFault(err)
	}
	if !certain {
		marks = slices.DeleteFunc(slices.Clone(marks), func(mark error) bool { return mark == store.ErrUndone })
	}
	return store.Fault(err, marks...)
}

// marksOf returns what an error means that does not come from the network.
func marksOf(err error) []error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case jetstream.JSErrCodeJetStreamNotEnabledForAccount:
			return refused
		case codeAccountFull, codeServerFull, codeMemoryFull, codeStorageFull, codeStoreFailed, jetstream.JSErrCodeStreamNotFound:
			return undone
		}
		if api.Code >= 500 {
			return undone
		}
		return []error{store.ErrUndone}
	}
	for _, known := range clientMarks {
		if errors.Is(err, known.err) {
			return known.marks
		}
	}
	return nil
}
