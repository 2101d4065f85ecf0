package notify

import (
	"maps"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
)

// Metrics are the metrics of a Notifier.
var Metrics = []instrument.Row[*Notifier]{
	{Name: "slidegate.policy.near_limit", Unit: "{event}",
		Help: "Events of keys that reached a threshold of a policy's notify, by the instance that made the event.",
		Each: func(n *Notifier, report instrument.Report) {
			n.mu.Lock()
			made := maps.Clone(n.made)
			n.mu.Unlock()
			for name, count := range made {
				report(float64(count), attribute.String("policy", name.policy), attribute.String("percent", strconv.Itoa(name.percent)))
			}
		}},
	{Name: "slidegate.events.delivered", Unit: "{event}", Help: "Events that the webhook accepted.",
		Each: func(n *Notifier, report instrument.Report) {
			if n.webhook != nil {
				report(float64(n.webhook.delivered.Load()))
			}
		}},
	{Name: "slidegate.events.dropped", Unit: "{event}",
		Help: "Events that were dropped, by reason: queue_full and store before they were made, webhook_full, webhook_expired and stopped before the webhook accepted them.",
		Each: func(n *Notifier, report instrument.Report) {
			for why, name := range lossNames {
				report(float64(n.lost[why].Load()), attribute.String("reason", name))
			}
		}},
	{Name: "slidegate.events.waiting", Unit: "{event}", Kind: instrument.Gauge, Help: "Events that wait to be claimed in the store, or for the webhook.",
		Value: func(n *Notifier) int64 {
			waiting := n.pending.Load()
			if n.webhook != nil {
				n.webhook.mu.Lock()
				waiting += int64(n.webhook.size)
				n.webhook.mu.Unlock()
			}
			return waiting
		}},
}
