"""What devices and coordinators say to each other: messages, frames, tensors, topics, identities, claims."""
