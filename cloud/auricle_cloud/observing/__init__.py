"""What an operator's instruments see: metrics, announcements, what devices report of their hearing."""
