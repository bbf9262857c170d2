package socket

import (
	"context"
	"net"
)

// Dialer connects as d does, and calms the connection.
func Dialer(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return Calm(conn), nil
	}
}
