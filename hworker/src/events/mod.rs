//! What happens to the jobs of a queue, for other processes: a stream beside the queue, which workers write and anybody may read.

mod line;
mod position;
mod reader;
mod tell;

pub(crate) use self::line::{Line, MESSAGE_BYTES};
pub use self::position::EventPosition;
pub use self::reader::EventReader;
