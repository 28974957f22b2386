//! A job is not a method. The method itself stays.

struct Mailer;

impl Mailer {
    #[hworker::job]
    async fn send(&self, to: String) {
        let _ = to;
    }

    #[hworker::job]
    async fn consume(mut self: Box<Self>, timeout: &mut u8) {
        *timeout = 1;
        self = Box::new(Mailer);
        let _ = self;
    }
}

fn main() {
    let _ = Mailer.send(String::new());
    let _ = Box::new(Mailer).consume(&mut 1);
}
