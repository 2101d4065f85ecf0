// Package routers holds the HTTP middleware and its adapters to one table of behaviours, in every router and behind real
// servers. It is a module of its own, because it needs all of the routers.
package routers
